package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// table is printed with lines on a terminal, in plain columns elsewhere.
type table struct {
	head []string
	rows [][]cell
}

// cell is the lines of a cell. In one row, cells have one line or all the same number.
type cell []string

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// line makes a cell of one line.
func line(a any) cell { return cell{clean(fmt.Sprint(a))} }

func (p *program) print(t table) {
	if p.terminal {
		t.draw(p.out)
	} else {
		t.list(p.out)
	}
}

// draw writes the table as the original did:
//
//	TARGET | CONCURRENCY
//	-------+------------
//	a      | 10
func (t *table) draw(w io.Writer) {
	widths := make([]int, len(t.head))
	for i, title := range t.head {
		widths[i] = utf8.RuneCountInString(title)
	}
	for _, row := range t.rows {
		for i, cell := range row {
			for _, text := range cell {
				widths[i] = max(widths[i], utf8.RuneCountInString(text))
			}
		}
	}
	dashes := make([]string, len(widths))
	for i, width := range widths {
		dashes[i] = strings.Repeat("-", width)
	}
	drawLine(w, widths, t.head, " | ")
	fmt.Fprintln(w, strings.Join(dashes, "-+-"))
	for _, row := range t.rows {
		for n := range height(row) {
			drawLine(w, widths, texts(row, n, false), " | ")
		}
	}
}

func drawLine(w io.Writer, widths []int, texts []string, between string) {
	padded := make([]string, len(texts))
	for i, text := range texts {
		padded[i] = text + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
	}
	fmt.Fprintln(w, strings.TrimRight(strings.Join(padded, between), " "))
}

// list writes the table for other programs: every line is complete, so cells of one
// line are repeated beside those of many, and an empty one is a hyphen.
func (t *table) list(w io.Writer) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, strings.Join(t.head, "\t"))
	for _, row := range t.rows {
		for n := range height(row) {
			cells := texts(row, n, true)
			for i, text := range cells {
				if text == "" {
					cells[i] = "-"
				}
			}
			fmt.Fprintln(columns, strings.Join(cells, "\t"))
		}
	}
	columns.Flush()
}

func height(row []cell) int {
	height := 1
	for _, cell := range row {
		height = max(height, len(cell))
	}
	return height
}

// texts is the n-th line of a row.
func texts(row []cell, n int, repeat bool) []string {
	texts := make([]string, len(row))
	for i, cell := range row {
		switch {
		case n < len(cell):
			texts[i] = cell[n]
		case repeat && len(cell) == 1:
			texts[i] = cell[0]
		}
	}
	return texts
}

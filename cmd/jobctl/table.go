package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// table is what jobctl prints in columns, with lines on a terminal:
//
//	TARGET | CONCURRENCY
//	-------+------------
//	a      | 10
//
// Elsewhere it is for other programs: every line is complete, so cells of one line are repeated
// beside those of many, and an empty cell is a hyphen. A table is made row by row and printed as a
// whole, or, where it may be of any length, begun by program.stream, which holds a chunk of it.
type table struct {
	head []string
	none string // said on a terminal in place of a table without rows; "" prints the head alone
	rows []row  // that are not printed yet

	// elastic is the head of the column that is cut where the terminal is too narrow, or the heads
	// of several, with a | between them.
	elastic string

	to     *program
	widths []int // of the columns, as the rows so far need them
	begun  bool  // the head is printed
	blanks string
}

type row struct {
	tone  tone
	cells []cell
}

// cell is the lines of a cell. In one row, cells have one line or all the same number.
type cell []string

// chunk is how many rows of a stream decide how wide its columns are.
const chunk = 1000

// line makes a cell of one line.
func line(a any) cell { return cell{clean(textOf(a))} }

// lines makes a cell of several lines, those that are not empty.
func lines(texts ...string) (c cell) {
	for _, text := range texts {
		if text != "" {
			c = append(c, clean(text))
		}
	}
	if len(c) == 0 {
		return cell{""}
	}
	return c
}

// add adds a row to a table that is printed as a whole.
func (t *table) add(cells ...cell) { t.rows = append(t.rows, row{plain, cells}) }

// print prints a whole table.
func (p *program) print(t table) {
	t.to = p
	_ = t.end() // what can't be written is told at the end of the run
}

// stream begins a table of any length. What it prints looks like a table that is printed as a
// whole, but for columns that later rows need wider.
func (p *program) stream(head ...string) *table { return &table{to: p, head: head} }

// put adds a row to a stream; its values are printed as fmt does.
func (t *table) put(tone tone, values ...any) error {
	texts, cells := make([]string, len(values)), make([]cell, len(values))
	for i, value := range values {
		texts[i] = clean(textOf(value))
		cells[i] = texts[i : i+1]
	}
	if t.rows = append(t.rows, row{tone, cells}); len(t.rows) >= chunk {
		return t.flush()
	}
	return nil
}

// end prints what is left of a table, or that there is nothing.
func (t *table) end() error {
	if t.none != "" && !t.begun && len(t.rows) == 0 && t.to.terminal {
		return t.to.sayNone(t.none)
	}
	return t.flush()
}

// sayNone tells a person that there is nothing to print; a program sees it.
func (p *program) sayNone(text string) error {
	if !p.terminal {
		return nil
	}
	_, err := fmt.Fprintln(p.out, text)
	return err
}

// flush prints the rows so far, and the head before the first ones.
func (t *table) flush() error {
	if !t.begun {
		t.widths = make([]int, len(t.head))
		t.widen(t.head)
	}
	for _, row := range t.rows {
		for n := range row.height() {
			t.widen(row.line(n, t.complete()))
		}
	}
	t.fit()
	var text bytes.Buffer
	if !t.begun {
		t.write(&text, t.head, plain)
		if t.to.terminal {
			t.dashes(&text)
		}
		t.begun = true
	}
	for _, row := range t.rows {
		for n := range row.height() {
			t.write(&text, row.line(n, t.complete()), row.tone)
		}
	}
	t.rows = t.rows[:0]
	_, err := t.to.out.Write(text.Bytes())
	return err
}

// complete says that every line is to have a text in every column: it is for a program.
func (t *table) complete() bool { return !t.to.terminal }

func (t *table) widen(texts []string) {
	for i, text := range texts {
		t.widths[i] = max(t.widths[i], widthOf(text))
	}
}

// between is what stands between two columns.
func (t *table) between() string {
	if t.to.terminal {
		return " | "
	}
	return "  "
}

// write writes one line.
func (t *table) write(to *bytes.Buffer, texts []string, tone tone) {
	var line []byte
	for i, text := range texts {
		if i > 0 {
			line = append(line, t.between()...)
		}
		width := widthOf(text)
		if width > t.widths[i] {
			text = cut(text, t.widths[i])
			width = widthOf(text)
		}
		line = append(append(line, text...), t.spaces(t.widths[i]-width)...)
	}
	to.WriteString(t.to.paint(string(bytes.TrimRight(line, " ")), tone))
	to.WriteByte('\n')
}

func (t *table) dashes(to *bytes.Buffer) {
	dashes := make([]string, len(t.widths))
	for i, width := range t.widths {
		dashes[i] = strings.Repeat("-", width)
	}
	fmt.Fprintln(to, strings.Join(dashes, "-+-"))
}

// spaces is so many blanks, kept for the next time.
func (t *table) spaces(n int) string {
	if n > len(t.blanks) {
		t.blanks = strings.Repeat(" ", 2*n)
	}
	return t.blanks[:n]
}

// height is how many lines a row has.
func (r row) height() int {
	height := 1
	for _, cell := range r.cells {
		height = max(height, len(cell))
	}
	return height
}

// line is the n-th line of a row. A complete one repeats what has one line only, and has no empty
// text.
func (r row) line(n int, complete bool) []string {
	texts := make([]string, len(r.cells))
	for i, cell := range r.cells {
		switch {
		case n < len(cell):
			texts[i] = cell[n]
		case complete && len(cell) == 1:
			texts[i] = cell[0]
		}
		if complete && texts[i] == "" {
			texts[i] = "-"
		}
	}
	return texts
}

// textOf is what fmt prints of a value, faster for what long tables are made of.
func textOf(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprint(value)
}

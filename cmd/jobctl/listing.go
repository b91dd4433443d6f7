package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// chunk is how many rows of a listing decide how wide its columns are.
const chunk = 1000

// listing is a table of any length: it looks like a table that is printed at once, and holds a chunk of it. Its
// columns are as wide as the rows so far need.
type listing struct {
	p      *program
	widths []int
	rows   []listed
	headed bool
}

type listed struct {
	tone  tone
	cells []string
}

func (p *program) newListing(head ...string) *listing {
	l := &listing{p: p, widths: make([]int, len(head))}
	l.rows = append(l.rows, listed{plain, head})
	return l
}

// add adds a row; its values are printed as fmt does.
func (l *listing) add(t tone, values ...any) error {
	row := listed{t, make([]string, len(values))}
	for i, value := range values {
		row.cells[i] = clean(fmt.Sprint(value))
		if row.cells[i] == "" && !l.p.terminal {
			row.cells[i] = "-"
		}
	}
	if l.rows = append(l.rows, row); len(l.rows) > chunk {
		return l.flush()
	}
	return nil
}

// flush prints what was added.
func (l *listing) flush() error {
	between := "  "
	if l.p.terminal {
		between = " | "
	}
	for _, row := range l.rows {
		for i, cell := range row.cells {
			l.widths[i] = max(l.widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range l.rows {
		padded := make([]string, len(row.cells))
		for i, cell := range row.cells {
			padded[i] = cell + strings.Repeat(" ", l.widths[i]-utf8.RuneCountInString(cell))
		}
		text := strings.TrimRight(strings.Join(padded, between), " ")
		if _, err := fmt.Fprintln(l.p.out, l.p.paint(text, row.tone)); err != nil {
			return err
		}
		if !l.headed && l.p.terminal {
			if err := l.dashes(); err != nil {
				return err
			}
		}
		l.headed = true
	}
	l.rows = l.rows[:0]
	return nil
}

func (l *listing) dashes() error {
	dashes := make([]string, len(l.widths))
	for i, width := range l.widths {
		dashes[i] = strings.Repeat("-", width)
	}
	_, err := fmt.Fprintln(l.p.out, strings.Join(dashes, "-+-"))
	return err
}

package main

import (
	"bytes"
	"fmt"
	"strconv"
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
	blank  string
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
		row.cells[i] = clean(textOf(value))
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
	var text bytes.Buffer
	var line []byte
	for _, row := range l.rows {
		line = line[:0]
		for i, cell := range row.cells {
			line = append(append(line, cell...), l.spaces(l.widths[i]-utf8.RuneCountInString(cell))...)
			if i < len(row.cells)-1 {
				line = append(line, between...)
			}
		}
		text.WriteString(l.p.paint(string(bytes.TrimRight(line, " ")), row.tone))
		text.WriteByte('\n')
		if !l.headed && l.p.terminal {
			l.dashes(&text)
		}
		l.headed = true
	}
	l.rows = l.rows[:0]
	_, err := l.p.out.Write(text.Bytes())
	return err
}

// spaces is so many blanks, kept for the next time.
func (l *listing) spaces(n int) string {
	if n > len(l.blank) {
		l.blank = strings.Repeat(" ", 2*n)
	}
	return l.blank[:n]
}

func (l *listing) dashes(text *bytes.Buffer) {
	dashes := make([]string, len(l.widths))
	for i, width := range l.widths {
		dashes[i] = strings.Repeat("-", width)
	}
	fmt.Fprintln(text, strings.Join(dashes, "-+-"))
}

// textOf is what fmt prints of a value, faster for what long listings are made of.
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

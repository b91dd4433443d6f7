package main

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// leastElastic is how narrow a column may be made, the … included.
const leastElastic = 8

// terminalWidths are how wide terminals show characters, wherever jobctl runs: no variable of the
// environment has a say. Joiners and selectors, which would change it, are written out before.
var terminalWidths = &runewidth.Condition{StrictEmojiNeutral: true}

// widthOf is how many columns of a terminal a text takes.
func widthOf(text string) (width int) {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			for _, r := range text {
				width += terminalWidths.RuneWidth(r)
			}
			return width
		}
	}
	return len(text)
}

// cut is the beginning of a text, with a … behind it, so that it takes no more than width columns.
func cut(text string, width int) string {
	if widthOf(text) <= width {
		return text
	}
	taken := 0
	for i, r := range text {
		if taken += terminalWidths.RuneWidth(r); taken > width-1 {
			return text[:i] + "…"
		}
	}
	return text
}

// columns is how wide the terminal is; 0: there is none, or nobody knows.
func (s surroundings) columns() int {
	if !s.terminal || s.width == nil {
		return 0
	}
	return s.width()
}

// fit makes the elastic columns narrower until a line fits into the terminal: always the widest of
// them, so that none is cut while a wider one is whole. It reports whether the line fits.
func (t *table) fit() bool {
	columns := t.to.columns()
	if columns == 0 {
		return true
	}
	over := -columns
	for i, width := range t.widths {
		if over += width; i > 0 {
			over += len(t.between())
		}
	}
	for ; over > 0; over-- {
		widest := -1
		for i := range t.widths {
			if t.isElastic(i) && t.widths[i] > leastElastic && (widest < 0 || t.widths[i] > t.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		t.widths[widest]--
	}
	return true
}

// fitsInto tells whether a table is as narrow as the terminal with nothing cut; elsewhere all fit.
func (t *table) fitsInto(p *program) bool {
	whole := table{to: p, head: t.head, widths: make([]int, len(t.head))}
	whole.widen(t.head)
	for _, row := range t.rows {
		for n := range row.height() {
			whole.widen(row.line(n, whole.complete()))
		}
	}
	return whole.fit()
}

// isElastic tells whether a column may be cut.
func (t *table) isElastic(column int) bool {
	return t.elastic != "" && slices.Contains(strings.Split(t.elastic, "|"), t.head[column])
}

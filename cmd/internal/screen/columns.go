package screen

import (
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// widths are how wide terminals show characters, wherever a program runs: no variable of the
// environment has a say. Joiners and selectors, which would change it, are written out before.
var widths = &runewidth.Condition{StrictEmojiNeutral: true}

// Width is how many columns of a terminal a text takes.
func Width(text string) (width int) {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			for _, r := range text {
				width += widths.RuneWidth(r)
			}
			return width
		}
	}
	return len(text)
}

// Cut is the beginning of a text, with a … behind it, so that it takes no more than width columns.
func Cut(text string, width int) string {
	if Width(text) <= width {
		return text
	}
	taken := 0
	for i, r := range text {
		if taken += widths.RuneWidth(r); taken > width-1 {
			return text[:i] + "…"
		}
	}
	return text
}

// Narrow takes columns of a table that is too wide from those that may be cut, always from the widest of
// them, so that none is cut while a wider one is whole; least is what a column keeps, -1 of one that is
// not cut.
func Narrow(widths []int, over int, least func(column int) int) {
	for ; over > 0; over-- {
		widest := -1
		for i, width := range widths {
			if keeps := least(i); keeps >= 0 && width > keeps && (widest < 0 || width > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

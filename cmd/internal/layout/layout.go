// Package layout lays out what people read of the programs: help on a terminal, and manual pages.
package layout

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Width is how many columns a page of help has at most.
const Width = 80

// widestTerm is the longest term that has its meaning beside it; behind a longer one it begins in
// the next line.
const widestTerm = 30

// Term is a line of a list: a flag, a command or a key, and what it means.
type Term struct{ Name, Meaning string }

// List writes terms in one column and what they mean in the next.
func List(w io.Writer, terms []Term) {
	column := 0
	for _, t := range terms {
		if n := utf8.RuneCountInString(t.Name); n <= widestTerm {
			column = max(column, n)
		}
	}
	indent := strings.Repeat(" ", column+4)
	for _, t := range terms {
		lines := Wrap(t.Meaning, Width-len(indent))
		if n := utf8.RuneCountInString(t.Name); n > column || len(lines) == 0 {
			fmt.Fprintf(w, "  %s\n", t.Name)
		} else {
			fmt.Fprintf(w, "  %s%s%s\n", t.Name, indent[2+n:], lines[0])
			lines = lines[1:]
		}
		for _, line := range lines {
			fmt.Fprintf(w, "%s%s\n", indent, line)
		}
	}
}

// Text writes paragraphs; an empty line stands between two.
func Text(w io.Writer, text string) {
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			fmt.Fprintln(w)
		}
		for _, line := range Wrap(paragraph, Width) {
			fmt.Fprintln(w, line)
		}
	}
}

// Wrap divides a text at its blanks into lines of a width, and a word that is longer behind its
// commas. What can't be divided has a line for itself.
func Wrap(text string, width int) (lines []string) {
	line, length := "", 0
	for _, word := range wordsOf(text, width) {
		n := utf8.RuneCountInString(word)
		if line != "" && length+1+n > width {
			lines = append(lines, line)
			line, length = "", 0
		}
		if line != "" {
			line, length = line+" ", length+1
		}
		line, length = line+word, length+n
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// wordsOf divides a text into what stands together in a line.
func wordsOf(text string, width int) (words []string) {
	for _, word := range strings.Fields(text) {
		for utf8.RuneCountInString(word) > width {
			head := word[:min(width, len(word))]
			comma := strings.LastIndexByte(head, ',')
			if comma <= 0 {
				break
			}
			words, word = append(words, word[:comma+1]), word[comma+1:]
		}
		words = append(words, word)
	}
	return words
}

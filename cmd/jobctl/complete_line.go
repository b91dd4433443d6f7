package main

import "strings"

// splitLine divides the beginning of a shell's command line into words. The last one is that which
// is being written; it is empty where a new one may begin. A quote that is not closed is open still.
func splitLine(line string) (words []string) {
	var word strings.Builder
	begun, quote := false, rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case quote != 0 && r == quote:
			quote = 0
		case quote == '\'':
			word.WriteRune(r)
		case r == '\\':
			begun, escaped = true, true
		case quote == '"':
			word.WriteRune(r)
		case r == '\'' || r == '"':
			begun, quote = true, r
		case r == ' ' || r == '\t' || r == '\n':
			if begun {
				words = append(words, word.String())
				word.Reset()
			}
			begun = false
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	return append(words, word.String())
}

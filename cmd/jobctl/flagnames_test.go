package main

import (
	"flag"
	"strings"
	"testing"
)

// The help of a command says of each flag that takes a value what that is.
func TestFlagsAreListedWithTheirValues(t *testing.T) {
	t.Parallel()
	_, root := newTree()
	seen := 0
	walk(root, nil, func(c *cmd, words []string) {
		c.FlagSet.VisitAll(func(f *flag.Flag) {
			is, ok := f.Value.(interface{ IsBoolFlag() bool })
			if len(words) == 0 || ok && is.IsBoolFlag() {
				return
			}
			seen++
			if text := withValue(f); strings.HasSuffix(text, " ") {
				t.Errorf("%q %s: its value has no name", words, text)
			}
		})
	})
	if seen < 20 {
		t.Errorf("%d flags were seen", seen)
	}
}

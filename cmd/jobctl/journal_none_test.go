package main

import (
	"strings"
	"testing"
)

// On a terminal a person reads that there is nothing; programs get the head of the table and no row.
func TestNothingFoundIsSaidOnATerminal(t *testing.T) {
	t.Parallel()
	dir := oneDay(t)
	for args, want := range map[string]string{
		"log --job 99":            "no events\n",
		"state --status=conflict": "no jobs\n",
		"conflicts":               "no conflicts\n",
		"stats --until 1d":        "no events\n",
	} {
		args := append([]string{"journal"}, append(strings.Fields(args), "--journal", dir)...)
		if got := (jobctl{terminal: true}).run(t, args...); got != (output{out: want}) {
			t.Errorf("%q on a terminal: exit code %d, stderr %q, stdout %q; want %q", args, got.code, got.err, got.out, want)
		}
		if got := (jobctl{}).run(t, args...); got.code != 0 || strings.Contains(got.out, "no ") {
			t.Errorf("%q elsewhere: %+v", args, got)
		}
	}
}

package main

import (
	"strings"
	"testing"
)

// Wrong usage is told before anybody is asked: here nobody listens, and no folder is there.
func TestNobodyIsAskedAboutWrongUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"show":                         "journal show: needs a job, as ID",
		"show x":                       `journal show: job "x" is not allowed`,
		"log -n -5":                    `-n: "-5" is not allowed; allowed is a whole number from 0 on`,
		"state -n -1":                  `-n: "-1" is not allowed`,
		"state --at 2h --since 1h":     "--since is not before --at",
		"log --since 1h --until 2h":    "is not before --until",
		"export --since 1h --until 2h": "is not before --until",
	} {
		for _, from := range []string{"--port 1", "--journal " + t.TempDir() + "/none"} {
			words := append([]string{"journal"}, strings.Fields(args+" "+from)...)
			if got := (jobctl{}).run(t, words...); got.code != 2 || !strings.Contains(got.err, want) {
				t.Errorf("%q: %+v, want exit code 2 and %q", words, got, want)
			}
		}
	}
}

package main

import (
	"strings"
	"testing"
)

// Commands about jobs say alike what they need, and what they were given.
func TestCommandsAboutJobsSayWhatTheyNeed(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"tail": "tail: needs a job, as ID or TARGET:ID", "show": "show: needs a job, as ID or TARGET:ID",
		"journal show": "journal show: needs a job, as ID", "tail 1 2": `tail: takes one job, got ["1" "2"]`,
		"show 1 1": `show: takes one job, got ["1" "1"]`, "journal show 1 2": `journal show: takes one job, got ["1" "2"]`,
		"why": "why: needs at least one job, as ID or TARGET:ID", "cancel": "cancel: needs at least one job, as ID or TARGET:ID",
		"wait": "wait: needs at least one job, as ID or TARGET:ID", "retry": "retry: needs at least one job, as ID or TARGET:ID",
	} {
		if got := (jobctl{}).run(t, strings.Fields(args)...); got.code != 2 || got.err != "jobctl: "+want+"\n" {
			t.Errorf("%s: %+v, want exit code 2 and %q", args, got, want)
		}
	}
}

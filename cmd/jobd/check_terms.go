package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/check"
	jobexec "jobd/exec"
	"jobd/store"
)

// findTerms says in words what the sections of targets come to, so that a slip is seen.
func (c *config) findTerms() (findings []check.Finding) {
	for _, name := range slices.Sorted(maps.Keys(c.sections)) {
		if _, served := c.targets[name]; served {
			t := c.sections[name]
			findings = append(findings, check.Finding{What: t.section.String(), Detail: strings.Join(t.words(), "; ")})
		}
	}
	return findings
}

// words are the terms of the target, each in a few words.
func (c *targetConfig) words() []string {
	return []string{attemptsInWords(c.terms), timeoutInWords(c.terms), rateInWords(c.terms.Rate)}
}

func attemptsInWords(t jobexec.Terms) string {
	switch {
	case t.Attempts == 0:
		return "one attempt, unless its row or on_crash gives more"
	case t.Attempts == 1:
		return "one attempt"
	case t.Backoff.First == t.Backoff.Most:
		return fmt.Sprintf("%d attempts, %s apart", t.Attempts, length(t.Backoff.First))
	}
	return fmt.Sprintf("%d attempts, from %s to %s apart", t.Attempts, length(t.Backoff.First), length(t.Backoff.Most))
}

func timeoutInWords(t jobexec.Terms) string {
	if t.Timeout == 0 {
		return "no time limit"
	}
	return fmt.Sprintf("SIGTERM after %s, SIGKILL %s later", length(t.Timeout), length(t.KillAfter))
}

func rateInWords(r jobexec.Rate) string {
	if r.Starts == 0 {
		return "as many starts as there are slots"
	}
	whose := "of this worker"
	if r.Fleet {
		whose = "of all workers of its master"
	}
	return fmt.Sprintf("at most %d starts in %s, %s", r.Starts, length(r.Per), whose)
}

// length is a duration without parts that are zero: 1h, not 1h0m0s.
func length(d time.Duration) string {
	text := d.String()
	if d%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if d%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// findTime says which columns are jobd's, and what counts for schedules.
func (c *config) findTime() []check.Finding {
	detail := strings.Join(c.time.uses, ", ")
	if c.time.uses.Has(store.ColumnSchedule) {
		missed := "made up for once"
		if c.time.skipMissed() {
			missed = "skipped"
		}
		detail += fmt.Sprintf("; schedules whose rows name no zone are in %v; a run that was missed is %s", c.time.location, missed)
	}
	return []check.Finding{{What: "use_columns", Detail: detail}}
}

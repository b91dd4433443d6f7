package exec_test

import (
	"strings"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
)

// Regression: a worker was cut off from its database, and so from its advisory locks, while its
// jobs ran. A fresh worker whose name has the same hash, or the same name, took them for its own
// lost ones, and ended or started them again.
func TestRowsOfAWorkerThatMayLiveAreLeftAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		holder string
		after  time.Duration
	}{
		{"its lock is free, but not for long", "", time.Hour},
		{"it has its lock again", "connection 7 from 10.0.0.5", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			theirs := tokenPrefix(t)
			row := journal.Row{Job: 1, Target: "a", Status: journal.RowRunning, Owner: theirs + "aaaaa"}
			f := newFixture(t, newTable(row, waiting(2, "a")), nil)
			f.build(func(config *jobexec.Config) { config.LostAfter = c.after })
			if c.holder != "" {
				f.table.holders["mark:"+theirs[1:]] = c.holder
			}
			f.start()
			p := f.next()
			f.journal.View(func(s *journal.State) {
				if token := s.Job(2).Token; strings.HasPrefix(token, theirs) {
					t.Errorf("a job is claimed with %s, under the mark of others", token)
				}
			})
			p.exit(0)
			f.wait("the other job is done", ended(2))
			if got := words(f.story(1)); got != "" {
				t.Errorf("the journal tells of the other worker's job: %s", got)
			}
		})
	}
}

// Where nobody has held the worker id for long enough, the journal is taken for lost, and what it knew
// for unknown.
func TestRowsOfAMarkThatNobodyHoldsAreLost(t *testing.T) {
	t.Parallel()
	theirs := tokenPrefix(t)
	row := journal.Row{Job: 1, Target: "a", Status: journal.RowRunning, Owner: theirs + "aaaaa"}
	f := newFixture(t, newTable(row), nil)
	f.table.holders["mark:"+theirs[1:]] = "connection 7 from 10.0.0.5"
	f.start()
	f.wait("another mark is taken", func(s *journal.State) bool { return s.Mark != "" && "@"+s.Mark != theirs })
	f.table.change(func() { clear(f.table.holders) })
	f.wait("the job is ended", func(s *journal.State) bool { return s.Seq >= 5 && len(s.Jobs) == 0 })
	if got := words(f.story(1)); got != "accepted running done" {
		t.Errorf("the story is %q", got)
	}
}

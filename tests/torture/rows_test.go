package torture

import (
	"fmt"
	"testing"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Somebody else deletes and edits rows that are claimed, and rows of jobs that run. What was written
// stays, a conflict is recorded once, nothing is tried over and over, and what had not started does not.
func TestRowsChangedInMidRun(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name      string
		statement string // about job %d
		runs      bool   // the job runs already, else it waits for a slot
		after     string // what holds of its row at the end
	}{
		{"deleted while it runs", "DELETE FROM jobs WHERE id = %d", true, ""},
		{"deleted before its start", "DELETE FROM jobs WHERE id = %d", false, ""},
		{"done by hand while it runs", "UPDATE jobs SET status = 'done', stdout = 'theirs', sig = NULL WHERE id = %d", true, "status = 'done' AND stdout = 'theirs'"},
		{"ignored by hand before its start", "UPDATE jobs SET status = 'ignored', stdout = 'theirs' WHERE id = %d", false, "status = 'ignored' AND stdout = 'theirs'"},
		{"claimed by another worker while it runs", "UPDATE jobs SET sig = '@elsewhere' WHERE id = %d", true, "status = 'running' AND sig = '@elsewhere'"},
		{"claimed by another worker before its start", "UPDATE jobs SET sig = '@elsewhere' WHERE id = %d", false, "status = 'accepted' AND sig = '@elsewhere'"},
	}
	t.Cleanup(func() { // when all of them are through
		suite.matrix.add(line{fault: "7 rows deleted or edited by somebody else", runs: len(cases), tally: tally{jobs: 3 * len(cases)}})
	})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, atGate, map[string]int{"a": 1})
			s.insert(t, 3, "a")
			s.start(t)
			s.AwaitCount(t, 1, "id = 1 AND status = 'running'")
			s.AwaitCount(t, 1, "id = 2 AND status = 'accepted'")
			s.oracle.awaitStarts(t, 1)
			id := 2
			if c.runs {
				id = 1
			}
			s.Exec(t, fmt.Sprintf(c.statement, id))
			s.oracle.open(t)
			s.AwaitCount(t, 2, "id <> ? AND status = 'done' AND return_code = id % 4", id)
			s.quiet(t)

			if c.after != "" && s.Count(t, fmt.Sprintf("id = %d AND %s", id, c.after)) != 1 {
				t.Errorf("the other's value did not stay: %s", s.Row(t, int64(id)))
			}
			if starts := len(s.oracle.read(t).starts[attempt{id, 1}]); (starts == 1) != c.runs || starts > 1 {
				t.Errorf("it was started %d times", starts)
			}
			if conflicts := s.count(t, int64(id), journal.KindConflict); conflicts < 1 || conflicts > 2 {
				t.Errorf("%d conflicts are recorded", conflicts)
			}
			checkJournal(t, s.settings["journal_dir"], s.oracle.read(t))
		})
	}
}

// quiet waits until the table shows all that is in the journal and nothing comes
// behind: a worker that tries over and over is never quiet.
func (s *site) quiet(t *testing.T) {
	t.Helper()
	client := harness.Dial(t, s.settings.Addr())
	type position struct{ Events, Mirrored uint64 }
	var last position
	same := 0
	if !await(func() bool {
		var status struct{ Journal position }
		client.Ask(t, "status", nil).Decode(t, &status)
		if status.Journal == last && last.Events == last.Mirrored {
			same++
		} else {
			last, same = status.Journal, 0
		}
		return same > 20
	}) {
		t.Fatalf("the worker does not come to rest: %+v", last)
	}
}

// count counts a job's events of one kind.
func (s *site) count(t *testing.T, job int64, kind journal.Kind) (n int) {
	t.Helper()
	reader := must.Get(replay.Open(s.settings["journal_dir"]))(t)
	for _, err := range reader.Events(t.Context(), journal.Filter{Job: job, Kinds: []journal.Kind{kind}}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

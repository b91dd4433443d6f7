package exec_test

import (
	"errors"
	"strings"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// Regression: the worker id was a hash of the name; two names, or the default name twice on one host,
// could have the same, and each worker took the other's rows for its own lost ones.
func TestAMarkThatIsTakenIsReplacedByAnother(t *testing.T) {
	t.Parallel()
	ours := tokenPrefix(t)[1:]
	f := newFixture(t, newTable(waiting(1, "a"), journal.Row{Job: 2, Target: "a", Status: journal.RowRunning, Owner: "@" + ours + "aaaaa"}), nil)
	f.table.holders["mark:"+ours] = "another worker"
	f.start()
	p := f.next()
	var token, known string
	f.journal.View(func(s *journal.State) { token, known = s.Job(1).Token, s.Mark })
	if len(token) != 10 || token[1:5] != known || known == ours {
		t.Errorf("claimed as %s, the journal has mark %q; %q is taken", token, known, ours)
	}
	p.exit(0)
	f.wait("it is done", ended(1))
	if got := f.story(2); len(got) > 0 {
		t.Errorf("a row of the other worker was touched: %v", got)
	}
}

// The worker id lasts as long as the journal, and is journalled once.
func TestTheJournalsMarkIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	must.Get(f.journal.Append(journal.Draft{Payload: journal.Marked{Mark: "qqqq"}}))(t)
	f.start()
	p := f.next()
	f.journal.View(func(s *journal.State) {
		if token := s.Job(1).Token; !strings.HasPrefix(token, "@qqqq") {
			t.Errorf("claimed as %s", token)
		}
	})
	p.exit(0)
	f.wait("it is done", ended(1))
	if got := words(f.story(0)); got != "marked opened" {
		t.Errorf("the worker's story: %q", got)
	}
}

// A worker whose name is taken claims nothing, says so, and tries again; what is claimed already
// goes on.
func TestNothingIsClaimedUnderATakenName(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), manual(2, "a")), nil)
	f.table.holders["name:node-1"] = "connection 7 from 10.0.0.5"
	f.start()
	f.until("it says why", func(s jobexec.Status) bool { return strings.Contains(s.Targets["a"].Why, "10.0.0.5") })
	var taken *jobexec.NameTakenError
	if err := f.worker.Identify(t.Context()); !errors.As(err, &taken) || taken.Name != "node-1" || taken.Holder != "connection 7 from 10.0.0.5" {
		t.Errorf("Identify: %v", err)
	}
	f.none()
	f.table.change(func() {
		if f.table.claims > 0 {
			t.Errorf("%d claims", f.table.claims)
		}
		clear(f.table.holders)
	})
	f.next().exit(0)
	f.until("nothing is wrong", func(s jobexec.Status) bool { return s.Targets["a"].Why == "" })
}

// The holder of this journal's name and worker id is this worker's own former connection: the worker
// waits for its end.
func TestAFormerConnectionIsWaitedFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	must.Get(f.journal.Append(journal.Draft{Payload: journal.Marked{Mark: "qqqq"}}))(t)
	f.table.holders["name:node-1"], f.table.holders["mark:qqqq"] = "connection 7", "connection 7"
	if err := f.worker.Identify(t.Context()); !jobexec.IsFormer(err) {
		t.Errorf("Identify: %v", err)
	}
	f.start()
	f.until("it says why", func(s jobexec.Status) bool { return strings.Contains(s.Targets["a"].Why, "connection 7") })
	f.table.change(func() { clear(f.table.holders) })
	f.next().exit(0)
	f.journal.View(func(s *journal.State) {
		if s.Mark != "qqqq" {
			t.Errorf("mark %q", s.Mark)
		}
	})
}

// Regression: a worker that could not ask for its name when it started, and found out later that

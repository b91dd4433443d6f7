package operator

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// A row that was to be run by hand only stays one, when it is cancelled and retried: whoever had it,
// and whichever worker is asked first.
func TestAManualJobThatWasCancelledIsRetriedAsManual(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for id := int64(1); id <= 60; id++ {
		s.db.Insert(t, id, []string{"a", "b"}[id%2], "manual")
	}
	s.db.Insert(t, 61, "nobody serves it", "waiting")
	all := make([]string, 0, 60)
	for id := 1; id <= 61; id++ {
		all = append(all, fmt.Sprint(id))
	}
	// Few are looked for one by one; one that was retried is cancelled again.
	for _, some := range [][]string{{"1", "2"}, {"1", "2"}, all[2:]} {
		if got := s.jobctl(t, "cancel "+strings.Join(some, " ")); got.code != 0 {
			t.Fatalf("%+v", got)
		}
		got := s.jobctl(t, "retry --output json "+strings.Join(some, " "))
		if n := strings.Count(got.stdout, `"manual"`); got.code != 0 || n != min(len(some), 58) {
			t.Fatalf("%d of %d rows are manual again: %+v", n, len(some), got)
		}
	}
	s.db.AwaitCount(t, 1, "id = 61 AND status = 'waiting'")
	s.db.AwaitCount(t, 60, "status = 'manual'")
}

// So does one that a worker had claimed, which waited there for a slot.
func TestAManualJobCancelledBeforeItsStartIsRetriedAsManual(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	gate := t.TempDir() + "/gate"
	launcher := harness.Script(t, "while [ ! -e "+gate+" ]; do sleep 0.2; done")
	third := s.db.Worker(t, "node-3", launcher, map[string]int{"c": 1}).With(harness.MasterOf(s.master)).StartWorker(t)
	harness.AwaitWorkers(t, s.master, "", 3)
	s.db.Insert(t, 1, "c", "manual")
	s.db.Insert(t, 2, "c", "manual")
	ended := make(chan ran, 1)
	go func() { ended <- jobctl(t, third, "run-manual", "1", "2") }()
	s.db.AwaitCount(t, 1, "status = 'running'")
	s.db.AwaitCount(t, 1, "status = 'accepted'")
	queued := int64(2)
	if s.db.Count(t, "id = 1 AND status = 'accepted'") == 1 {
		queued = 1
	}
	if got := s.jobctl(t, fmt.Sprint("cancel ", queued)); got.code != 0 || !strings.Contains(got.stdout, "ignored: it will not run") {
		t.Fatalf("%+v", got)
	}
	if got := s.jobctl(t, fmt.Sprint("retry ", queued)); got.code != 0 || !strings.Contains(got.stdout, "manual") {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-ended
	s.db.AwaitCount(t, 1, fmt.Sprintf("id = %d AND status = 'manual'", queued))
}

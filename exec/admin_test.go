package exec_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

func TestSetConcurrencyTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b")), nil)
	f.start()
	f.next()
	f.none()
	must.Do(t, f.worker.SetConcurrency("b", 2, "me"))
	f.next()
}

func TestPause(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(), nil)
	f.start()
	must.Do(t, f.worker.Pause(nil, "me"))
	if err := f.worker.Pause([]string{"a"}, "somebody else"); err != nil {
		t.Errorf("pausing twice: %v", err)
	}
	f.table.insert(waiting(1, "a"), manual(2, "a"))
	answers := make(chan jobexec.Answer[jobexec.Result], 1)
	go func() {
		answer, _ := f.worker.RunManual(context.Background(), []int64{2}, "me")
		answers <- answer
	}()
	f.claimed(2)
	f.none()
	want, got := jobexec.TargetStatus{Paused: true, Concurrency: 2, Length: 1, Prefetched: 1, PausedBy: "me"}, jobexec.TargetStatus{}
	want.PausedSince = f.of(journal.KindPaused).times[0].UnixMilli() // of the first of the two
	for deadline := time.Now().Add(hung); got != want && time.Now().Before(deadline); runtime.Gosched() {
		got = f.worker.Status().Targets["a"] // it is queued once its claim is won
	}
	if got != want {
		t.Errorf("status while paused: %+v", got)
	}
	must.Do(t, f.worker.Continue(nil, "me"))
	f.next().exit(0)
	f.next().exit(0) // the row that waited: continue polls
	<-answers
	if got := f.worker.Status().Targets["a"]; got.Paused || got.PausedSince != 0 || got.PausedBy != "" {
		t.Errorf("status when it goes on: %+v", got)
	}
}

func TestTargetsChangeAtRunTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "c"), waiting(2, "a")), nil)
	f.start()
	busy := f.next()
	steps := []struct {
		name string
		do   func() error
		want string
	}{
		{"poll of an unknown target", func() error { return f.worker.Poll([]string{"a", "c"}) }, "invalid target 'c'"},
		{"pause of an unknown target", func() error { return f.worker.Pause([]string{"c"}, "me") }, "invalid target 'c'"},
		{"concurrency 0", func() error { return f.worker.AddTarget("c", 0, "me") }, "Invalid concurrency value."},
		{"add", func() error { return f.worker.AddTarget("c", 1, "me") }, ""},
		{"add again", func() error { return f.worker.AddTarget("c", 1, "me") }, "target 'c' already added"},
		{"remove while it runs a job", func() error { return f.worker.RemoveTarget("a", "me") }, "queue is not empty"},
		{"remove an unknown one", func() error { return f.worker.RemoveTarget("zz", "me") }, "target 'zz' not found"},
		{"set an unknown one", func() error { return f.worker.SetConcurrency("zz", 1, "me") }, "target 'zz' not found"},
		{"set to 0", func() error { return f.worker.SetConcurrency("a", 0, "me") }, "Invalid concurrency value."},
		{"remove", func() error { return f.worker.RemoveTarget("b", "me") }, ""},
	}
	for _, step := range steps {
		err := step.do()
		var refused jobexec.RefusedError
		if step.want == "" && err != nil || step.want != "" && (!errors.As(err, &refused) || err.Error() != step.want) {
			t.Errorf("%s: %v, want %q", step.name, err, step.want)
		}
	}
	if got := strings.Join(f.worker.TargetNames(), " "); got != "a c" {
		t.Errorf("targets: %s", got)
	}
	f.next().exit(0) // the row of the target that was added
	must.Do(t, f.worker.RetireTarget("a", "file"))
	f.table.insert(waiting(3, "a"))
	busy.exit(0)
	f.wait("the target is gone when it is empty", func(s *journal.State) bool {
		_, there := s.Targets["a"]
		return !there
	})
	f.none()
}

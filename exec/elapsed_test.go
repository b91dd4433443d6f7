package exec_test

import (
	"strings"
	"testing"

	"jobd/journal"
	"jobd/store/storetest/must"
)

// Nobody saw how a process ended that outlived its runner, but how long it ran is known, and
// journalled.
func TestHowLongAnAdoptedJobRanIsJournalled(t *testing.T) {
	t.Parallel()
	accepted := journal.Accepted{Target: "a", Token: "@abcdefghi"}
	f := newFixture(t, newTable(journal.Row{Job: 1, Target: "a", Status: journal.RowRunning, Owner: accepted.Token}), nil)
	left(t, f.journal, accepted, journal.Running{Attempt: 1, Runner: "runner-0"}, journal.Started{Pid: 4711, StartTime: 1, BootID: "boot"})
	old := &process{pid: 4711, ended: make(chan struct{}), signals: make(chan int, 1), done: journal.Done{Elapsed: 3_000_000}}
	f.runner.alive[4711] = old
	f.start()
	close(old.ended)
	f.wait("the job is at its end", ended(1))
	done := journal.Done{}
	for seq := uint64(3); done.Result == ""; seq++ {
		events := must.Get(f.journal.Next(t.Context(), seq, 1))(t)
		done, _ = events[0].Payload.(journal.Done)
	}
	if done.Elapsed != 3_000_000 || !strings.HasPrefix(done.Reason, "outcome unknown") {
		t.Errorf("%+v", done)
	}
}

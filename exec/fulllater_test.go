package exec_test

import (
	"context"

	"jobd/journal"
)

// laterLives are scenarios of TestEveryAppendMayFindTheDiskFull in which a job is parked, or a row is to be ignored.
func laterLives() map[string]life {
	return map[string]life{
		"parked": {
			rows: []journal.Row{waiting(1, "b"), waiting(2, "b"), waiting(3, "b")}, starts: 3,
			end: map[int64]string{1: journal.RowDone, 2: journal.RowDone, 3: journal.RowDone},
			live: func(f *fixture) {
				third := f.pass(2)
				f.follower.unlock(2)
				f.reach(map[int64]string{2: journal.RowRunning})
				third.exit(0)
				f.next().exit(0)
			},
		},
		"parked, and paused": {
			rows: []journal.Row{waiting(1, "b"), waiting(2, "b"), waiting(3, "b")}, starts: 3,
			end: map[int64]string{1: journal.RowDone, 2: journal.RowDone, 3: journal.RowDone},
			live: func(f *fixture) {
				third := f.pass(2)
				again(f, func() error { return f.worker.Pause(nil, "me") })
				third.exit(0)
				f.wait("it is given back", ended(2))
				f.follower.unlock(2)
				f.reach(map[int64]string{2: journal.RowWaiting, 3: journal.RowDone})
				again(f, func() error { return f.worker.Continue(nil, "me") })
				f.next().exit(0)
			},
		},
		"parked, and stopped": {
			rows: []journal.Row{waiting(1, "b"), waiting(2, "b"), waiting(3, "b")}, starts: 2,
			end: map[int64]string{1: journal.RowDone, 2: journal.RowWaiting, 3: journal.RowDone},
			live: func(f *fixture) {
				third := f.pass(2)
				f.stop()
				f.wait("it is given back", ended(2))
				f.follower.unlock(2)
				third.exit(0)
			},
		},
	}
}

// pass runs job 1, has its next one parked, and gives the process of the one that has the slot instead.
func (f *fixture) pass(id int64) *process {
	f.t.Helper()
	first := f.next()
	f.wait("the next is claimed", func(s *journal.State) bool { return s.Job(id).Status == journal.StatusAccepted })
	f.follower.lock(id)
	first.exit(0)
	return f.next()
}

var _ = context.Background

package exec_test

import (
	jobexec "jobd/exec"
	"jobd/journal"
)

// laterLives are scenarios of TestEveryAppendMayFindTheDiskFull in which a job is parked, or a row
// becomes ignored.
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
		"cancelled": {
			rows: []journal.Row{waiting(1, "b"), waiting(2, "b"), waiting(3, "c")}, starts: 1,
			end: map[int64]string{1: journal.RowDone, 2: journal.RowIgnored, 3: journal.RowIgnored},
			live: func(f *fixture) {
				p := f.next()
				f.claimed(2)
				got := f.cancel(jobexec.CancelWish{IDs: []int64{1, 2, 3}, Rows: true})
				if len(got) != 3 || got[1] != "signals of b" || got[2] != "not run of b" || got[3] != "not run of c" {
					f.t.Errorf("told %v", got)
				}
				<-p.signals
				<-p.signals
				p.exit(1)
			},
		},
		"ignored, and refused": {
			rows: []journal.Row{manual(1, "c"), waiting(2, "a"), waiting(3, "a")}, instant: true, starts: 2,
			end:     map[int64]string{1: journal.RowManual, 2: journal.RowDone, 3: journal.RowDone},
			prepare: func(f *fixture) { f.table.refused[1] = "a trigger" },
			live: func(f *fixture) {
				f.ignored()
				f.agree()
			},
		},
		"ignored, in doubt, and not won": {
			rows: []journal.Row{manual(1, "c")}, end: map[int64]string{1: journal.RowManual},
			prepare: func(f *fixture) { f.table.commit = failing(1, errLink) },
			live: func(f *fixture) {
				f.ignored()
				f.agree()
			},
		},
		"ignored, in doubt, and won": {
			rows:    []journal.Row{manual(1, "c")},
			prepare: func(f *fixture) { f.table.commit = func(apply func()) error { apply(); return errLink } },
			live: func(f *fixture) {
				f.ignored()
				f.agree()
			},
		},
	}
}

// pass runs job 1, has its next one parked, and gives the process of the one that has the slot
// instead.
func (f *fixture) pass(id int64) *process {
	f.t.Helper()
	first := f.next()
	f.claimed(id)
	f.follower.lock(id)
	first.exit(0)
	return f.next()
}

// ignored cancels job 1, which nobody has claimed.
func (f *fixture) ignored() {
	f.t.Helper()
	f.cancel(jobexec.CancelWish{IDs: []int64{1}, Rows: true})
	f.until("nothing is in doubt", func(s jobexec.Status) bool { return s.Doubted == 0 })
}

// agree checks that the journal says ignored where the row does, and the opposite where it does
// not.
func (f *fixture) agree() {
	f.t.Helper()
	last := journal.Kind("")
	for _, kind := range f.story(1) {
		last = kind
	}
	if ignored := f.table.status(1) == journal.RowIgnored; last != "" && ignored != (last == journal.KindIgnored) {
		f.t.Errorf("the row is %s, the journal says last that it is %s", f.table.status(1), last)
	}
}

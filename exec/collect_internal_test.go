package exec

import (
	"testing"
	"testing/synctest"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// collector is a worker whose four slots are taken.
func collector(waiting func() int) (w *Worker, jobs []*board.Job) {
	w = New(Config{Targets: map[string]int{"a": 4, "b": 1}, Waiting: waiting})
	for id := range int64(4) {
		jobs = append(jobs, w.board.Adopt(journal.Job{ID: id + 1, Target: "a", Status: journal.StatusRunning}, mute{}))
	}
	return w, jobs
}

// endsForTest ends a job, as a turn is to hear of it.
func (w *Worker) endsForTest(j *board.Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.board.Ended(j, journal.Started{}, board.Outcome{})
	w.nudgeTurn()
}

// How long a turn waits for more jobs to end, after one of four has.
func TestATurnWaitsWhileTheProcessorsHaveEnoughToDo(t *testing.T) {
	t.Parallel()
	none, some := func() int { return 0 }, func() int { return 3 }
	for name, test := range map[string]struct {
		waiting func() int
		busy    bool          // more than one had ended in the turn before
		usual   time.Duration // that jobs run
		ends    time.Duration // when a second one ends; 0: none does
		want    time.Duration
	}{
		"nobody knows":                                 {usual: time.Hour},
		"processors are idle":                          {waiting: none, usual: time.Hour},
		"idle, after a busy turn":                      {waiting: none, busy: true, usual: time.Hour, want: collectTime},
		"nobody knows, after a busy turn":              {busy: true, usual: time.Hour, want: collectTime},
		"processors are wanted by short jobs":          {waiting: some, usual: 11 * time.Millisecond},
		"by short jobs, after a busy turn":             {waiting: some, busy: true, usual: 11 * time.Millisecond, want: collectTime},
		"processors are wanted":                        {waiting: some, usual: 36 * time.Millisecond, want: 9 * time.Millisecond},
		"processors are wanted by long jobs":           {waiting: some, usual: time.Hour, want: mostCollect},
		"processors are wanted, and a second job ends": {waiting: some, usual: time.Hour, ends: 5 * time.Millisecond, want: 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, jobs := collector(test.waiting)
				w.usual = test.usual
				if test.busy {
					w.busy = time.Now()
				}
				w.endsForTest(jobs[0])
				if test.ends > 0 {
					time.AfterFunc(test.ends, func() { w.endsForTest(jobs[1]) })
				}
				begun := time.Now()
				w.collect()
				if took := time.Since(begun); took != test.want {
					t.Errorf("it waited for %s, want %s", took, test.want)
				}
			})
		})
	}
}

// The processors are idle again while a turn waits.
func TestATurnEndsItsWaitWhenProcessorsAreIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		w, jobs := collector(func() int { looks++; return 3 - looks })
		w.usual = time.Hour
		w.endsForTest(jobs[0])
		begun := time.Now()
		w.collect()
		if took := time.Since(begun); took != 2*collectTime {
			t.Errorf("it waited for %s", took)
		}
	})
}

// A target with few slots is not held up because others have many, and long jobs.
func TestATurnIsNotHeldUpByTheJobsOfOtherTargets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := collector(func() int { return 9 })
		w.usual = time.Hour
		only := w.board.Adopt(journal.Job{ID: 5, Target: "b", Status: journal.StatusRunning}, mute{})
		w.endsForTest(only)
		begun := time.Now()
		w.collect()
		if took := time.Since(begun); took > 0 {
			t.Errorf("the only job of a target has ended, and its turn waited for %s", took)
		}
	})
}

// Who wants a job to be signalled, or cancelled, waits for no end of others.
func TestWhatSomebodyAsksForIsNotHeldUpByATurnThatWaits(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(b *board.Board, j *board.Job){
		"signal": func(b *board.Board, j *board.Job) {
			b.Signal(board.Signal{Job: j, Event: journal.Signal{Signo: 15}, To: make(chan error, 1)})
		},
		"cancel": func(b *board.Board, j *board.Job) { b.Cancel(board.Cancel{Job: j}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, jobs := collector(func() int { return 9 })
				w.usual = time.Hour
				w.endsForTest(jobs[0])
				const later = 4 * time.Millisecond
				time.AfterFunc(later, func() {
					w.mu.Lock()
					defer w.mu.Unlock()
					ask(w.board, jobs[1])
					w.nudgeTurn()
				})
				begun := time.Now()
				w.collect()
				if took := time.Since(begun); took != later {
					t.Errorf("it was held up for %s", took-later)
				}
			})
		})
	}
}

// How long jobs run is learned from those that end, the newest ones counting for most.
func TestHowLongJobsRunIsLearned(t *testing.T) {
	t.Parallel()
	w, _ := collector(nil)
	for range 30 {
		w.learn(board.Turn{Ends: 2, Ran: 40 * time.Millisecond})
	}
	if off := w.usual - 20*time.Millisecond; off.Abs() > time.Millisecond {
		t.Errorf("jobs of 20 ms are taken for %s", w.usual)
	}
	w.learn(board.Turn{})
	if w.usual == 0 {
		t.Error("a turn in which none ended was learned from")
	}
}

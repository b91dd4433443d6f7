package exec

import (
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// Observer hears what has happened, for whoever counts it. It is told after that is durable, so it
// counts nothing that a crash takes back; what a former run of the worker did is not told again. Its
// methods are called from any goroutine and for each job: they must be fast, and must not block.
type Observer interface {
	// JobStarted says that a job's process was started, and how long its row had waited for that: since
	// it was made, was set back by hand, or was due, whichever came last. It is not told of jobs that
	// are run by hand, nor of those started again whose outcome nobody knows, and not where the row
	// does not say since when it waits.
	JobStarted(target string, waited time.Duration)
	// JobEnded says how a job has ended.
	JobEnded(target string, done journal.Done)
	// Claimed says how long the table took to answer a claim, and why it failed, if it did.
	Claimed(took time.Duration, err error)
}

// deaf is the Observer where nobody counts.
type deaf struct{}

func (deaf) JobStarted(string, time.Duration) {}
func (deaf) JobEnded(string, journal.Done)    {}
func (deaf) Claimed(time.Duration, error)     {}

// observe tells what a turn has journalled.
func (w *Worker) observe(steps []*board.Step) {
	if w.Observer == (deaf{}) {
		return
	}
	for _, s := range steps {
		if s.Err != nil {
			continue
		}
		var ran time.Duration
		for _, e := range s.Events {
			if done, is := e.Payload.(journal.Done); is {
				ran = time.Duration(done.Elapsed) * time.Microsecond
				w.Observer.JobEnded(s.Job().Target(), done)
			}
		}
		for _, e := range s.Events {
			if _, is := e.Payload.(journal.Started); is {
				w.observeStart(s.Job(), e.Time.Add(-ran))
			}
		}
	}
}

// observeStart tells of a job whose process began at a time of the worker's clock.
func (w *Worker) observeStart(j *board.Job, began time.Time) {
	since := j.Ready()
	if since == 0 {
		return
	}
	w.mu.Lock()
	began = w.clock.now(began)
	w.mu.Unlock()
	w.Observer.JobStarted(j.Target(), max(0, began.Sub(time.Unix(since, 0))))
}

package board

import (
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"jobd/journal"
)

// wish is a cancel that was told to the board, which has to be handed back.
type wish struct {
	job  *Job
	to   chan Cancel
	runs bool // its process was there when it was told
}

// cancelOne cancels any job, whatever its phase is. One of which nothing can be said yet is let
// alone: its canceller asks again.
func (w *world) cancelOne() bool {
	if len(w.b.jobs) == 0 {
		return false
	}
	j := w.b.jobs[rapid.SampledFrom(slices.Sorted(maps.Keys(w.b.jobs))).Draw(w.T, "cancelled")]
	grace := time.Duration(rapid.IntRange(0, 2).Draw(w.T, "grace")) * time.Minute
	one := &wish{job: j, to: make(chan Cancel, 1), runs: j.phase == Running}
	taken, e := w.b.Cancel(Cancel{Job: j, By: "me", Grace: grace, Schedule: rapid.Bool().Draw(w.T, "with its schedule"), To: one.to})
	w.after(e)
	if taken {
		w.wishes = append(w.wishes, one)
	}
	return true
}

// checkCancelled checks what is about to be journalled against the wishes that are in the journal:
// what was cancelled before it ran is over, and what ran is not started again, and has failed.
func (w *world) checkCancelled(e journal.Event) {
	before := w.state.Job(e.Job)
	switch p := e.Payload.(type) {
	case journal.Cancelled:
		if asked := w.startsAsked(e.Job, p.Token); !p.Runs && asked {
			w.Fatalf("job %d was started, and is cancelled as if it were not", e.Job)
		} else if p.Runs && !asked && before.Executor != "http" && !before.Status.Ended() && before.Attempt <= First(claimOf(before)) && !w.former[e.Job] {
			w.Fatalf("job %d was not started, and is cancelled as if it ran", e.Job)
		}
	case journal.Running:
		if before.Cancelled != nil {
			w.Fatalf("job %d is started once more, attempt %d, though it was cancelled", e.Job, p.Attempt)
		}
	case journal.Done:
		if before.Cancelled != nil && (p.Result != "fail" || !strings.HasPrefix(p.Reason, "cancelled by me")) {
			w.Fatalf("job %d was cancelled, and ends as %+v", e.Job, p)
		}
	}
}

// startsAsked tells whether the runner was asked for a start of a claim.
func (w *world) startsAsked(id int64, token string) bool {
	return slices.ContainsFunc(w.events, func(e journal.Event) bool {
		p, is := e.Payload.(journal.Running)
		return is && e.Job == id && p.Token == token && w.asked[e.Seq] && !w.withdrawn[e.Seq]
	})
}

// announcedOf is the newest event that announces a start of a job.
func (w *world) announcedOf(id int64) (seq uint64) {
	for _, e := range w.events {
		if e.Job == id && e.Kind() == journal.KindRunning {
			seq = e.Seq
		}
	}
	return seq
}

// checkWishes checks, when everything has come to its end, that nobody waits in vain, and that each
// was told what is so.
func (w *world) checkWishes() {
	for _, one := range w.wishes {
		var c Cancel
		select {
		case c = <-one.to:
		default:
			w.Fatalf("who cancelled job %d waits for ever", one.job.id)
		}
		token := one.job.claim.Token
		journalled := func(want func(journal.Event) bool) bool {
			return slices.ContainsFunc(w.events, func(e journal.Event) bool { return e.Job == one.job.id && want(e) })
		}
		never := journalled(func(e journal.Event) bool {
			p, is := e.Payload.(journal.Cancelled)
			return is && p.Token == token && !p.Runs
		})
		termed := journalled(func(e journal.Event) bool {
			p, is := e.Payload.(journal.Signal)
			return is && p.By == "me"
		})
		switch {
		case c.Err != nil:
		case c.Did == NotRun && (!never || w.startsAsked(one.job.id, token)):
			w.Fatalf("job %d is told to be cancelled before it ran; journalled so: %t", one.job.id, never)
		case (c.Did == Signals || c.Did == Hurries || c.Did == Already) && (never || !termed || !one.runs):
			w.Fatalf("job %d is told to get signals; journalled as not run: %t, SIGTERM: %t", one.job.id, never, termed)
		}
	}
}

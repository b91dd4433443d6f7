package board

import (
	"slices"
	"time"
)

// Standing is where a job stands, for people.
type Standing struct {
	Phase   Phase  // of a claim in doubt none
	InDoubt bool   // it is not known whether its claim was won
	Lost    string // of a claim in doubt: it is to be given up, and this is why
	Ignored bool   // in doubt is whether the row was ignored
	Target  string
	Manual  bool
	Attempt int
	Before  int       // jobs that wait before it in the queue
	Began   time.Time // when its start was announced; zero before that
	Reason  string    // of a job that is leaving
	Process Process
}

// Standing tells where a job stands; false where it is not under way here.
func (b *Board) Standing(id int64) (s Standing, known bool) {
	if j := b.jobs[id]; j != nil {
		s = Standing{
			Phase: j.phase, Target: j.target.name, Manual: j.claim.Manual, Attempt: j.attempt,
			Began: j.began, Reason: j.reason, Process: j.process,
		}
		if j.phase == Queued {
			s.Before = max(slices.Index(j.target.queue, j), 0)
		}
		return s, true
	}
	if d := b.doubts[id]; d != nil {
		return Standing{InDoubt: true, Lost: d.lost, Ignored: d.ignored, Target: d.Target, Manual: d.Manual}, true
	}
	return Standing{}, false
}

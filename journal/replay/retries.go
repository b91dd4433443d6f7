package replay

import "jobd/journal"

// retries remembers the jobs of a history that were retried, and those whose end was planned anew.
// Such a job is at its end and comes to one once more, so that it is to be kept meanwhile; from a
// retry a conflict may bring it back.
type retries map[int64]*retryState

type retryState struct {
	now    bool // it is retried, as far as was read, and neither claimed since nor taken back
	passed bool // the same, in the second reading
}

// note takes in what begins or ends a job anew.
func (r retries) note(job int64, kind journal.Kind) {
	switch {
	case kind == journal.KindRetried:
		r[job] = &retryState{now: true}
		return
	case kind == journal.KindReplanned && r[job] == nil:
		r[job] = &retryState{}
		return
	case kind == journal.KindReplanned:
		return
	}
	if known := r[job]; known != nil {
		known.now = false
	}
}

// undo notes that a retry, if it was one, is taken back.
func (r retries) undo(job int64) {
	if known := r[job]; known != nil {
		known.now = false
	}
}

// is tells whether a job is retried, as far as was read.
func (r retries) is(job int64) bool { return r[job] != nil && r[job].now }

// needs tells whether a job is retried, or its end planned anew, at some time, so that its end before is to be known.
func (r retries) needs(job int64) bool { return r[job] != nil }

// ends tells, in the second reading, whether an event brought a job that is at its end there. A job
// that is never retried is forgotten at its end, unless it is ignored.
func (r retries) ends(e journal.Event, job *journal.Job) bool {
	known := r[e.Job]
	if known == nil {
		return job.Status != journal.StatusIgnored || e.Kind() == journal.KindIgnored || e.Kind() == journal.KindCancelled
	}
	switch p := e.Payload.(type) {
	case journal.Retried:
		known.passed = true
		return true
	case journal.Ignored, journal.Planned:
		known.passed = false
		return true
	case journal.Replanned:
		return true
	case journal.Conflict:
		back := p.Wanted == journal.WantedRetried && known.passed
		back = back || p.Wanted == journal.RowIgnored && job.Status == journal.StatusConflict && job.Ended.Equal(e.Time)
		if back {
			known.passed = false
			return true
		}
	}
	if job.End == e.Seq {
		known.passed = false
		return true
	}
	return false
}

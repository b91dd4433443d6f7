package board

import (
	"log/slog"
	"time"
)

// An executor may be unable to start jobs of a target: none of the processes that are kept for them
// gets ready, or their service can't be reached. That is no outcome of any job. Nothing is claimed
// for the target then, and what has not started is given back, manual jobs too, whose clients are
// told why. A second attempt waits in its queue. The executor tries again by itself, and says when
// jobs can be started; no job is used up to find out. One that does not know by itself that it is unable
// is judged by the jobs that it refuses: one of them is tried again and again (refused.go).
//
// Nothing of it is journalled: a new process of the worker is told anew.

// SetUnable notes why no job of a target can be started, as its executor says; "": they can.
func (b *Board) SetUnable(t *Target, why string, now time.Time) Effects {
	switch {
	case why == "" && t.unable != "":
		b.effects.Notes = append(b.effects.Notes, Note{slog.LevelWarn, "jobs of a target can be started again", []any{
			"target", t.name, "after", now.Sub(t.unableSince).Round(time.Millisecond), "reason", t.unable,
		}})
		b.able(t)
	case why != "" && t.unable == "":
		b.effects.Notes = append(b.effects.Notes, Note{
			slog.LevelError, "no job of a target can be started; nothing is claimed for it until one can, and what was claimed is given back",
			[]any{"target", t.name, "reason", why},
		})
		t.unable, t.unableSince = why, now
		b.takeBackAll(t)
	default:
		t.unable = why
	}
	return b.follow()
}

// able has jobs of a target started again.
func (b *Board) able(t *Target) {
	if t.unable == "" {
		return
	}
	t.unable, t.unableSince = "", time.Time{}
	b.effects.Poll = append(b.effects.Poll, t.name)
	b.dispatch(t)
}

// Unable is why no job of it can be started, as its executor says or shows, and since when; "" where they
// can.
func (t *Target) Unable() (why string, since time.Time) {
	if t.unable == "" && t.refused != nil {
		return t.refused.why, t.refused.since
	}
	return t.unable, t.unableSince
}

// cant is why no other job of it can be started than the one that is to show whether any can.
func (t *Target) cant() string {
	why, _ := t.Unable()
	return why
}

// whyNot is why a job is not started now that has, or had, a slot; "" where it would be.
func (b *Board) whyNot(j *Job) string {
	if b.hitched(j) {
		return b.hitch.Text()
	}
	if r := j.target.refused; r != nil && r.probe == j && (j.target.retiredBy == "" || !j.mayLeave()) {
		return j.target.unable
	}
	return j.target.cant()
}

package board

import (
	"log/slog"
	"time"
)

// The executor of a target, or its own launcher, may refuse start after start, and not know by itself
// that it is unable: each fork fails, its program is gone. Where it refuses one job as often as
// mostRefusals, in a row, the target is unable, as if the executor had said so (unable.go): nothing is
// claimed for it, and its rows stay. That one job is the probe: it keeps its slot, and is tried again each
// few seconds. The first start of the target that goes well ends that. Where the probe goes, because
// somebody cancels it, or pauses or removes the target, the next jobs are to show how it stands.

// firstProbe and lastProbe are the pauses between two tries of the probe.
const (
	firstProbe = time.Second
	lastProbe  = 5 * time.Second
)

// refused is that a target's executor refuses its jobs.
type refused struct {
	why      string
	since    time.Time
	probe    *Job
	launcher int // the number of the launcher that refused it last
	rest     Backoff
}

// refuses notes that the start of a job was refused by the executor of its target, or its own launcher, and
// tells for how long it is not to be tried again; 0: as long as it takes for others.
func (b *Board) refuses(j *Job, o Outcome, now time.Time) (pause time.Duration) {
	t := j.target
	if j.refusals < mostRefusals || t.refused != nil && t.refused.probe != j {
		return 0
	}
	if t.refused == nil {
		t.refused = &refused{since: now, probe: j}
	}
	r := t.refused
	r.launcher = j.launcher
	if why := j.refusedText(o.Cause); r.why == "" {
		r.why = why
		b.note(slog.LevelError, "no job of a target can be started; nothing is claimed for it until one can, and what was claimed is given back", j, "reason", why)
		b.excuseAs(j, why)
		b.takeBackAll(t)
	} else {
		r.why = why
	}
	r.rest.Grow(now, firstProbe, lastProbe)
	return r.rest.Due.Sub(now)
}

// refusedText says in words why a job's start is refused.
func (j *Job) refusedText(cause error) string {
	if j.executor == "" {
		return "its launcher can't be executed: " + cause.Error()
	}
	return "its executor refuses to start jobs: " + cause.Error()
}

// takes notes that a job was started. One that a former executor of its target, or an earlier launcher was
// asked for shows nothing of those that refuse jobs now.
func (b *Board) takes(j *Job, now time.Time) {
	t := j.target
	if r := t.refused; r != nil && j.executor == r.probe.executor && j.launcher >= r.launcher {
		b.effects.Notes = append(b.effects.Notes, Note{slog.LevelWarn, "jobs of a target can be started again", []any{
			"target", t.name, "after", now.Sub(r.since).Round(time.Millisecond), "reason", r.why,
		}})
		b.unrefused(t)
	}
}

// probeGone has other jobs show how a target stands, where the one that was to do so has lost its slot.
func (b *Board) probeGone(j *Job) {
	if r := j.target.refused; r != nil && r.probe == j {
		b.unrefused(j.target)
	}
}

// unrefused has jobs of a target started again, and claimed.
func (b *Board) unrefused(t *Target) {
	if t.refused == nil {
		return
	}
	t.refused = nil
	b.effects.Poll = append(b.effects.Poll, t.name)
	b.redispatch = append(b.redispatch, t)
}

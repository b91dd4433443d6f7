package board

import (
	"log/slog"
	"time"
)

const (
	firstHitch = time.Second
	longHitch  = 30 * time.Second
	calm       = time.Minute // after which the next hitch has nothing to do with the one before
)

// proves notes that a job was started.
func (b *Board) proves(j *Job, now time.Time) {
	if h := b.hitch; h != nil && h.probe == j && j.launcher == b.launcher {
		b.unhitch(now)
	}
}

// hitchOn notes that nothing can be started, as a job has shown.
func (b *Board) hitchOn(j *Job, o Outcome, now time.Time) {
	first := b.hitch == nil
	if first {
		if now.Sub(b.hitches.ended) > calm {
			b.hitches.rest = Backoff{}
		}
		b.hitch = &Hitch{since: now}
	}
	h := b.hitch
	if !first && h.probe != j {
		return // it was asked for at the same time as the one that showed it
	}
	h.why, h.short, h.seen, h.probe, h.ready = o.Cause.Error(), o.Short, false, nil, false
	b.hitches.rest.Grow(now, firstHitch, longHitch)
	if first {
		b.note(slog.LevelError, "no job can be started; nothing is claimed until one can, and what was claimed is given back",
			j, "reason", h.Text())
		for _, t := range b.targets {
			b.takeBackAll(t)
		}
	}
	b.examine(JustLook)
	b.effects.Wake = true
}

// tellsNothing has a later job tell whether any can be started, where this one was to do so, and could
// not be because of its target's own launcher.
func (b *Board) tellsNothing(j *Job, now time.Time) {
	if h := b.hitch; h != nil && h.probe == j {
		h.probe, h.ready = nil, false
		b.hitches.rest.Grow(now, firstHitch, longHitch)
		b.effects.Wake = true
	}
}

// unhitch has jobs started again.
func (b *Board) unhitch(now time.Time) {
	after := now.Sub(b.hitch.since).Round(time.Millisecond)
	b.effects.Notes = append(b.effects.Notes, Note{
		slog.LevelWarn, "jobs can be started again", []any{"after", after, "reason", b.hitch.Text()},
	})
	b.hitch, b.hitches.ended, b.hitches.rest.Due = nil, now, time.Time{}
	b.startWaiting()
}

// startWaiting starts what waits, and looks for more.
func (b *Board) startWaiting() {
	for _, t := range b.targets {
		b.effects.Poll = append(b.effects.Poll, t.name)
		b.dispatch(t)
	}
}

// goOn ends the hitch where a look showed it and does not any more; else the next job is to tell.
func (b *Board) goOn(now time.Time) {
	if b.hitch.seen {
		b.unhitch(now)
		return
	}
	b.hitch.ready = true
	b.startWaiting()
}

// failed notes what a look shows.
func (h *Hitch) failed(err error) { h.why, h.short, h.seen, h.ready = err.Error(), false, true, false }

// NewLauncher notes that the launcher was replaced. Where none could be started, the new one is
// looked at.
func (b *Board) NewLauncher() Effects {
	b.launcher++
	if b.hitch != nil {
		b.examine(LookToGoOn)
	}
	return b.follow()
}

// LookSoon has the launcher looked at, where it can't be executed, unless that was done a moment
// ago.
func (b *Board) LookSoon(now time.Time) Effects {
	if h := b.hitch; h != nil && now.Sub(h.looked) > firstHitch {
		b.examine(LookToGoOn)
	}
	return b.follow()
}

// LookDue has the launcher looked at where the time for that has come.
func (b *Board) LookDue(now time.Time) Effects {
	if b.hitch != nil && b.hitches.rest.Passed(now) {
		b.examine(LookToGoOn)
	}
	return b.follow()
}

// NextLook is when that is; zero: no look is planned.
func (b *Board) NextLook() time.Time {
	if b.hitch == nil {
		return time.Time{}
	}
	return b.hitches.rest.Due
}

// Looking begins a look at the launcher. It is nil where none is wanted, or one is under way.
func (b *Board) Looking() *Hitch {
	h := b.hitch
	if h == nil || h.looking != 0 {
		return nil
	}
	h.looking = b.launcher + 1
	return h
}

// Looked ends a look at the launcher, which has shown err. Where that is nothing, and how says so,
// either that was it, or a job is to tell.
func (b *Board) Looked(h *Hitch, how Examine, err error, now time.Time) Effects {
	launcher := h.looking - 1
	if h.looking, h.looked = 0, now; b.hitch != h || h.probe != nil {
		return b.follow()
	}
	switch {
	case launcher != b.launcher:
		b.examine(how)
	case err != nil:
		h.failed(err)
		if b.hitches.rest.Due.IsZero() {
			b.hitches.rest.Grow(now, firstHitch, longHitch)
		}
	case how == LookToGoOn:
		b.goOn(now)
	}
	b.effects.Wake = true
	return b.follow()
}

// LookedFor ends a look at the launcher for a client, and says why its jobs can't be run; "" where
// they are to be tried.
func (b *Board) LookedFor(h *Hitch, err error, now time.Time) (why string, e Effects) {
	switch {
	case b.hitch != h:
	case h.probe != nil:
		why = h.Text()
	case err != nil:
		h.failed(err)
		why = h.Text()
	default:
		b.goOn(now)
	}
	return why, b.follow()
}

package board

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

// Hitch is why no job can be started: the system refuses to execute the launcher, or is short of
// what a process takes. Such a start never happened, so it is no outcome: the job is given back, as
// is all that has not started, nothing is claimed, and clients are told the reason. A second
// attempt is not given back, because the journal says that its job ran: it waits in its queue, and
// keeps its number.
//
// The launcher is looked at again, after 1 s at first and 30 s at most, and when somebody polls,
// continues, or has the configuration read again. Where a look showed what was wrong, and shows
// that it is right, jobs are started again. What only a start can tell, one job tells: the probe.
// It is the only one that is claimed, and when it runs all others are.
type Hitch struct {
	why     string
	short   bool // what is missing comes back by itself
	since   time.Time
	seen    bool // a look shows it
	looking int  // the launcher that is looked at, counted from 1; 0: none is
	looked  time.Time
	ready   bool // the next job to be started is the probe
	probe   *Job // is about to be started, to see
}

// hitches is what is kept beyond one hitch.
type hitches struct {
	rest  Backoff   // until the launcher is looked at again
	ended time.Time // when jobs could be started again
}

// Text says so in words, for operators, clients and the journal.
func (h *Hitch) Text() string {
	if h.short {
		return "no job can be started for now: " + h.why
	}
	return "the launcher can't be executed: " + h.why
}

// Since is when it began.
func (h *Hitch) Since() time.Time { return h.since }

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

// An executor may be unable to start jobs of a target: none of the processes that are kept for them
// gets ready, or their service can't be reached. That is no outcome of any job. Nothing is claimed
// for the target then, and what has not started is given back, manual jobs too, whose clients are
// told why. A second attempt waits in its queue. The executor tries again by itself, and says when
// jobs can be started; no job is used up to find out. One that does not know by itself that it is unable
// is judged by the jobs that it refuses: one of them is tried again and again.
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

// The executor of a target, or its own launcher, may refuse start after start, and not know by itself
// that it is unable: each fork fails, its program is gone. Where it refuses one job as often as
// mostRefusals, in a row, the target is unable, as if the executor had said so: nothing is
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

// A claim that finds a free slot starts its job itself, and the mirror writes the end of the one
// before meanwhile. Where it is slower than that (the table takes ends slowly, output is long, the
// server is busy), claims would overtake it for ever: ever more rows would read as under way whose
// jobs are long over, and the table would be owed ever more. So the ends and releases that the
// table does not show yet are counted, and more of them than a target has slots keep it from
// claiming. As the mirror writes all that is pending at once, that is never the case where it keeps
// up.
//
// Nothing of it is journalled, and a new process begins to count anew.

// Behind tells whether nothing is claimed for the target because the table does not show yet how
// its former jobs ended.
func (t *Target) Behind() bool { return t.over() > 0 }

// over is how many more rows the table has to show before the target may claim.
func (t *Target) over() int {
	return t.in[Ending] + t.in[Leaving] + len(t.unseen) - t.concurrency
}

// unseenFrom notes that the row of one of its jobs is owed an event that ends the job's claim.
func (t *Target) unseenFrom(seq uint64) { t.unseen = append(t.unseen, seq) }

// Seen notes that the mirror is done with all events up to seq.
func (b *Board) Seen(seq uint64) {
	for _, t := range b.targets {
		n := 0
		for n < len(t.unseen) && t.unseen[n] <= seq {
			n++
		}
		t.unseen = t.unseen[n:]
	}
}

// Awaited is the first event that lets a target claim again when the table shows it; 0 where the
// table is waited for by none.
func (b *Board) Awaited() (seq uint64) {
	for _, t := range b.targets {
		if over := min(t.over(), len(t.unseen)); over > 0 && (seq == 0 || t.unseen[over-1] < seq) {
			seq = t.unseen[over-1]
		}
	}
	return seq
}

// Backoff is the time of the next try of one thing, which grows from try to try.
type Backoff struct {
	Due    time.Time // zero: no try is planned
	length time.Duration
}

// Grow plans the next try: after first at most, twice as long each time, never longer than most. Up
// to two fifths are taken off at random, so that several workers do not meet again and again.
func (b *Backoff) Grow(now time.Time, first, most time.Duration) {
	b.length = min(max(first, 2*b.length), most)
	b.Due = now.Add(b.length - rand.N(2*b.length/5+1))
}

// Passed tells whether the try is due, and takes it from the plan.
func (b *Backoff) Passed(now time.Time) bool {
	if b.Due.IsZero() || b.Due.After(now) {
		return false
	}
	b.Due = time.Time{}
	return true
}

package board

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

// Starter is what starts jobs: the worker's launcher for all targets that have nothing of their own, or
// what one target has: a launcher, pool processes, a service. A start that it refuses never happened, so
// it is no outcome: the worker tries the job again for a moment. Where that does not help, the starter
// fails: the worker gives back what has not started, and claims nothing. It does not give back a second
// attempt, because the journal says that its job ran: that waits in its queue, and keeps its number.
//
// The launcher is looked at again, after firstLook at first and longLook at most. Where a look showed what was
// wrong, and shows that it is right, jobs are started again.
// What only a start can tell, one job tells: the trial. It is the only one that is claimed, and when any
// start goes well all others are. A job that a client wants run is tried in any case, and the client is
// told what became of it. A configuration that is read again makes an end of what was seen before.
//
// An executor may know by itself that it can start nothing, and says so: then nothing is tried until it
// says otherwise. Nothing of all that is journalled: a new process of the worker finds out anew.
type Starter struct {
	target  string // that it is of; "": the worker's launcher
	why     string // why no job can be started, in words; "" where nothing is wrong
	since   time.Time
	told    bool    // the executor says so itself
	seen    bool    // a look shows it
	looking bool    // a look is under way
	rest    Backoff // until the next one
	ready   bool    // the next job that gets a slot is the trial
	trial   *Job    // is about to be started, to see
}

const (
	firstLook = time.Second
	longLook  = 10 * time.Second
)

// Why is why it can start no job, and since when; "" where nothing is wrong.
func (s *Starter) Why() (why string, since time.Time) { return s.why, s.since }

// Own tells whether it starts the jobs of one target only.
func (s *Starter) Own() bool { return s.target != "" }

// open tells whether one more job may be started, manual or not.
func (s *Starter) open(manual bool) bool {
	return s.why == "" || !s.told && (manual || s.ready && s.trial == nil)
}

// whyNot is why a job is not started that has, or had, a slot; "" where it would be.
func (s *Starter) whyNot(j *Job) string {
	if s.trial == j || s.open(j.claim.Manual) {
		return ""
	}
	return s.why
}

// text says in words why jobs can't be started.
func (b *Board) text(s *Starter, short bool, cause error) string {
	switch {
	case !s.Own() && short:
		return "no job can be started for now: " + cause.Error()
	case !s.Own():
		return "the launcher can't be executed: " + cause.Error()
	case b.timing.executor(s.target) == "":
		return "its launcher can't be executed: " + cause.Error()
	}
	return "its executor refuses to start jobs: " + cause.Error()
}

// equip gives a target its starter.
func (b *Board) equip(t *Target) {
	t.own.target, t.starter = t.name, &b.launcher
	if b.timing.Terms[t.name].Own || b.timing.executor(t.name) != "" {
		t.starter = &t.own
	}
}

// Launcher is the worker's launcher.
func (b *Board) Launcher() *Starter { return &b.launcher }

// starters lists the worker's launcher and what targets have of their own.
func (b *Board) starters() []*Starter {
	all := []*Starter{&b.launcher}
	for _, t := range b.targets {
		if t.starter.Own() {
			all = append(all, t.starter)
		}
	}
	return all
}

// startedBy lists the targets whose jobs a starter starts.
func (b *Board) startedBy(s *Starter) (targets []*Target) {
	for _, t := range b.targets {
		if t.starter == s {
			targets = append(targets, t)
		}
	}
	return targets
}

// fails notes that a starter can start nothing, as a job has shown.
func (b *Board) fails(j *Job, o Outcome, now time.Time) {
	s := j.target.starter
	first := s.why == ""
	if !first && s.trial != j {
		return // it was asked for at the same time as the one that showed it
	}
	s.why, s.seen, s.trial, s.ready = b.text(s, o.Short, o.Cause), false, nil, false
	s.rest.Grow(now, firstLook, longLook)
	b.effects.Wake = true
	if first {
		b.close(s, now)
	}
}

// close gives back what a starter has not started.
func (b *Board) close(s *Starter, now time.Time) {
	s.since = now
	b.say(s, b.level(s, slog.LevelError), "no job can be started; until one can, nothing is claimed, and claimed jobs are given back")
	for _, t := range b.startedBy(s) {
		b.takeBackAll(t)
	}
}

// mend has jobs started again.
func (b *Board) mend(s *Starter, now time.Time) {
	b.say(s, b.level(s, slog.LevelWarn), "jobs can be started again", "after", now.Sub(s.since).Round(time.Millisecond))
	b.forget(s)
}

// level is how loud it is said that a starter can start nothing, or can again. Gearman workers come and go.
func (b *Board) level(s *Starter, level slog.Level) slog.Level {
	if b.timing.executor(s.target) == gearman {
		return slog.LevelInfo
	}
	return level
}

// say logs what has become of a starter.
func (b *Board) say(s *Starter, level slog.Level, text string, args ...any) {
	args = append(args, "reason", s.why)
	if s.Own() {
		args = append(args, "target", s.target)
	}
	b.effects.Notes = append(b.effects.Notes, Note{level, text, args})
}

// forget has jobs started as if nothing had been wrong.
func (b *Board) forget(s *Starter) {
	*s = Starter{target: s.target}
	b.startWaiting(s)
}

// startWaiting starts what waits for a starter when the call under way ends, and looks for more.
func (b *Board) startWaiting(s *Starter) {
	for _, t := range b.startedBy(s) {
		b.effects.Poll = append(b.effects.Poll, t.name)
		b.redispatch = append(b.redispatch, t)
	}
}

// ran notes that a job was started just now, which shows that jobs can be. The end of one that was started
// long ago shows nothing of the kind, nor does that of a request which was never sent.
func (b *Board) ran(j *Job, now time.Time) {
	if s := j.target.starter; s.why != "" && !s.told {
		b.mend(s, now)
	}
}

// tries notes that a job has got a slot, which makes it the trial where one is wanted.
func (s *Starter) tries(j *Job) {
	if s.why != "" && !s.told && s.trial == nil {
		s.trial, s.ready = j, false
	}
}

// untried has another job tell, where one that has lost its slot did not.
func (b *Board) untried(j *Job) {
	if s := j.target.starter; s.trial == j {
		s.trial, s.ready = nil, true
		b.startWaiting(s)
	}
}

// LookDue has launchers looked at where the time for that has come.
func (b *Board) LookDue(now time.Time) Effects {
	for _, s := range b.starters() {
		if s.rest.Passed(now) && !s.told && !s.looking {
			s.looking = true
			b.effects.Look = append(b.effects.Look, s)
		}
	}
	return b.follow()
}

// Rests visits what waits for a time: looks at launchers, and questions about claims in doubt.
func (b *Board) Rests(visit func(*Backoff)) {
	for _, s := range b.starters() {
		visit(&s.rest)
	}
	for _, d := range b.doubts {
		visit(&d.rest)
	}
}

// Target is the target whose launcher it is; "": it is the worker's.
func (s *Starter) Target() string { return s.target }

// Looked ends a look at a launcher, which has shown err. Where that is nil, either the fault is gone,
// or the start of a job will tell.
func (b *Board) Looked(s *Starter, err error, now time.Time) Effects {
	if !s.looking {
		return b.follow() // it has become another one meanwhile
	}
	s.looking = false
	switch {
	case err != nil:
		s.why, s.seen, s.ready = b.text(s, false, err), true, false
		s.rest.Grow(now, firstLook, longLook)
	case s.seen:
		b.mend(s, now)
	default:
		s.ready = true
		b.startWaiting(s)
	}
	b.effects.Wake = true
	return b.follow()
}

// SetUnable notes why no job of a target can be started, as its executor says; "": they can.
func (b *Board) SetUnable(t *Target, why string, now time.Time) Effects {
	s := t.starter
	switch {
	case why == "" && s.told:
		b.mend(s, now)
	case why != "" && s.told:
		s.why = why
	case why != "":
		*s = Starter{target: s.target, why: why, told: true}
		b.close(s, now)
	}
	return b.follow()
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

// behind tells whether nothing is claimed for the target because the table does not show yet how
// its former jobs ended.
func (t *Target) behind() bool { return t.over() > 0 }

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

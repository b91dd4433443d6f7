package board

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"jobd/journal"
	"pgregory.net/rapid"
)

type process struct {
	job   *Job
	begun bool
	stray bool // its runner is gone: nobody will know how it ended
	sent  bool // of a request: it may be on its way
	given bool // of a request: it is given up

	ended *Outcome // that the runner keeps until it is told to forget it
}

// start tells one start of one job from all others, as runner and journal do.
type start struct {
	job     int64
	token   string
	attempt int
}

func (j *Job) start() start { return start{j.id, j.claim.Token, j.attempt} }

// beginTurn makes a turn, of which there is one at a time.
func (w *world) beginTurn() bool {
	if w.turn != nil {
		return false
	}
	turn, e := w.b.Turn(w.now, instance)
	w.times.turned = w.now.Unix()
	w.after(e)
	if len(turn.Steps) == 0 {
		return false
	}
	w.turn = &turn
	return true
}

// endTurn journals it, step by step where it contradicts the journal. A full disk is waited out.
func (w *world) endTurn() bool {
	if w.turn == nil || w.full {
		return false
	}
	for _, s := range w.turn.Steps {
		s.Events, s.Err = w.append(s.Drafts...)
	}
	turn := *w.turn
	w.turn = nil
	w.after(w.b.Journalled(turn))
	return true
}

// startOne asks the runner for the first start that waits.
func (w *world) startOne() bool {
	if len(w.start) == 0 {
		return false
	}
	s := w.start[0]
	w.start = w.start[1:]
	ask, e := w.b.Ask(s)
	w.after(e)
	if !ask {
		return true
	}
	if w.b.Target(s.target.name) == nil {
		w.Fatalf("job %d is started, of a target that is not served", s.id)
	}
	if w.stopped || w.paused[s.target.name] || w.unable[s.target.name] || w.asked[s.Seq] || w.process[s.Job] != nil {
		w.Fatalf("job %d is started: stopped %t, paused %t, unable %t, before %t, runs %t",
			s.id, w.stopped, w.paused[s.target.name], w.unable[s.target.name], w.asked[s.Seq], w.process[s.Job] != nil)
	}
	if st := s.target.starter; st.why != "" && st.trial != s.Job && !s.claim.Manual {
		w.Fatalf("job %d is started; none can be: %s", s.id, st.why)
	}
	if seq := w.once[s.start()]; seq != 0 && !w.withdrawn[seq] {
		w.Fatalf("job %d is started a second time under its claim: attempt %d by events %d and %d", s.id, s.attempt, seq, s.Seq)
	}
	w.asked[s.Seq], w.once[s.start()] = true, s.Seq
	w.startsRun(s)
	w.asking = append(w.asking, s)
	return true
}

// showOne has the row of an announced job show it; or not for so long that the job is given back.
func (w *world) showOne(late *rapid.Generator[bool]) bool {
	if len(w.shown) == 0 {
		return false
	}
	s := w.shown[0]
	w.shown = w.shown[1:]
	if late.Draw(w.T, "late") {
		given, e := w.b.GiveUp(s, "its row is locked")
		if w.after(e); !given {
			w.shown = append(w.shown, s)
		}
		return true
	}
	if known := w.state.Job(s.id); known.Status != journal.StatusStarting || known.Token != s.Token() {
		w.after(w.b.Taken(s))
		return true
	}
	w.start = append(w.start, s)
	return true
}

// answerOne has the runner take a request: it starts the job, is another one by now, or can't.
func (w *world) answerOne(answer *rapid.Generator[int]) bool {
	if len(w.asking) == 0 {
		return false
	}
	s := w.asking[0]
	w.asking = w.asking[1:]
	switch answer.Draw(w.T, "answer") {
	case 0:
		w.process[s.Job] = &process{job: s.Job}
		w.b.Asked(s.Job, w.process[s.Job])
	case 1:
		w.withdrawn[s.Seq] = true
		w.after(w.b.Replaced(s.Job, errors.New("another runner")))
	default:
		w.withdrawn[s.Seq] = true
		w.b.Asked(s.Job, nil)
		w.after(w.b.Ended(s.Job, journal.Started{}, Outcome{Fate: Impossible, Cause: errors.New("no")}))
	}
	return true
}

func (w *world) renewOne() bool {
	if len(w.renewed) == 0 {
		return false
	}
	r := w.renewed[0]
	w.renewed = w.renewed[1:]
	w.after(w.b.Renew(r.Job))
	return true
}

// anyProcess is a process that lives; nil where there is none.
func (w *world) anyProcess() *process {
	if len(w.process) == 0 {
		return nil
	}
	return rapid.SampledFrom(slices.SortedFunc(maps.Values(w.process), func(p, q *process) int { return int(p.job.id - q.job.id) })).
		Draw(w.T, "process")
}

func (p *process) started() journal.Started {
	if p.requests() {
		return journal.Started{Address: "service"}
	}
	return journal.Started{Pid: int(p.job.id), StartTime: 1, BootID: "boot"}
}

func (w *world) beginOne() bool {
	p := w.anyProcess()
	if p == nil || p.begun {
		return false
	}
	p.begun = true
	w.after(w.b.Began(p.job, p.started(), w.now))
	return true
}

func (w *world) endOne(fates *rapid.Generator[Fate]) bool {
	p := w.anyProcess()
	if p == nil {
		return false
	}
	if p.requests() {
		return w.endRequest(p, fates)
	}
	started, fate := p.started(), fates.Draw(w.T, "fate")
	if neverRan := fate == NotAsked || fate == NotStarted || fate == Impossible; neverRan && p.begun {
		fate = Over
	} else if neverRan {
		w.withdrawn[w.announcedOf(p.job.id)] = true
		started = journal.Started{}
	}
	if p.stray {
		fate = Unknown
	}
	delete(w.process, p.job)
	short := fate == NotStarted && rapid.Bool().Draw(w.T, "short")
	outcome := Outcome{Fate: fate, Done: w.outcome(), Cause: errors.New("that is why"), Short: short}
	switch fate {
	case Over:
		p.ended = &outcome
		w.kept[p.job.start()] = p
	case Unknown: // its runner is gone
		w.orphans[p.job.id] = true
	}
	w.after(w.b.Ended(p.job, started, outcome))
	return true
}

func (w *world) signalOne() bool {
	p := w.anyProcess()
	if p == nil || !p.begun {
		return false
	}
	signo := rapid.SampledFrom([]int{10, 15}).Draw(w.T, "signal")
	w.after(w.b.Signal(Signal{Job: p.job, Event: journal.Signal{Signo: signo}, To: make(chan error, 1)}))
	return true
}

// conflict has the mirror find a row changed by somebody else.
func (w *world) conflict() bool {
	jobs := slices.DeleteFunc(w.state.Unfinished(), func(j journal.Job) bool { return w.locked(j.ID) })
	if len(jobs) == 0 {
		return false
	}
	j := rapid.SampledFrom(jobs).Draw(w.T, "changed row")
	_, _ = w.append(journal.Draft{Job: j.ID, Payload: journal.Conflict{Token: j.Token}})
	return true
}

// Where a job stands is told in each place that it may be in, and telling changes nothing.
func TestStanding(t *testing.T) {
	t.Parallel()
	b := New(Config{Targets: map[string]int{"a": 1}})
	if s, known := b.Standing(1); known {
		t.Errorf("nobody's job stands %+v", s)
	}
	claim := &Claim{}
	var events []journal.Event
	for id := int64(1); id <= 3; id++ {
		for _, d := range b.Accept(claim, journal.Row{Job: id, Target: "a", Status: journal.RowWaiting}, "@abcd00000", instance, time.Unix(1_000_000, 0)) {
			events = append(events, journal.Event{Seq: uint64(len(events) + 1), Time: time.Unix(int64(len(events)), 0), Job: d.Job, Payload: d.Payload})
		}
	}
	b.Decided(claim, events)
	expect := func(id int64, want Standing) {
		t.Helper()
		if got, known := b.Standing(id); !known || got != want {
			t.Errorf("job %d: %+v, want %+v", id, got, want)
		}
	}
	began := time.Unix(1, 0)
	expect(1, Standing{Phase: Reserved, Target: "a", Attempt: 1, Began: began})
	effects := b.Won(claim)
	expect(1, Standing{Phase: Announced, Target: "a", Attempt: 1, Began: began})
	expect(2, Standing{Phase: Queued, Target: "a", Attempt: 1})
	expect(3, Standing{Phase: Queued, Target: "a", Attempt: 1, Before: 1})
	b.Ask(effects.Start[0])
	b.Asked(effects.Start[0].Job, "process")
	expect(1, Standing{Phase: Asked, Target: "a", Attempt: 1, Began: began, Process: "process"})

	b.Doubt(&Claim{Events: []journal.Event{{Job: 7, Payload: journal.Accepted{Target: "a", Manual: true}}}}, nil)
	expect(7, Standing{InDoubt: true, Target: "a", Manual: true})
	b.Doubt(&Claim{Events: []journal.Event{{Job: 8, Payload: journal.Ignored{}}}}, func(int64) string { return "gone" })
	expect(8, Standing{InDoubt: true, Ignored: true, Lost: "gone"})

	b.Pause([]*Target{b.Target("a")}, began, "me")
	expect(3, Standing{Phase: Leaving, Target: "a", Attempt: 1, Reason: targetPaused})
}

// requested makes a board whose only job is a request that has its connection, and is about to be
// journalled with that.
func requested(t *testing.T) (*Board, *Job, time.Time) {
	t.Helper()
	now := time.Unix(1_000_000, 0)
	b := New(Config{Targets: map[string]int{"a": 1}, Timing: Timing{Executor: "http"}})
	claim := &Claim{}
	var events []journal.Event
	for _, d := range b.Accept(claim, journal.Row{Job: 1, Target: "a", Status: journal.RowWaiting}, "@abcd00000", instance, now) {
		events = append(events, journal.Event{Seq: uint64(len(events) + 1), Job: d.Job, Payload: d.Payload})
	}
	b.Decided(claim, events)
	e := b.Won(claim)
	if ask, _ := b.Ask(e.Start[0]); !ask {
		t.Fatal("its start is not asked for")
	}
	j := b.Job(1)
	b.Asked(j, "its process")
	b.Began(j, journal.Started{Address: "127.0.0.1:80"}, now)
	return b, j, now
}

// takeTurn journals a turn, with an error where it is refused.
func takeTurn(b *Board, turn Turn, refused error) Effects {
	for _, s := range turn.Steps {
		if s.Err = refused; refused != nil {
			continue
		}
		for _, d := range s.Drafts {
			s.Events = append(s.Events, journal.Event{Seq: 10, Job: d.Job, Payload: d.Payload})
		}
	}
	return b.Journalled(turn)
}

// A signal for a start that is over, or that was not asked for, is journalled of none that follows, and
// counts for none.
func TestASignalIsForOneStart(t *testing.T) {
	t.Parallel()
	b, j, now := requested(t)
	b.Ended(j, journal.Started{Address: "127.0.0.1:80"}, Outcome{Fate: NotStarted, Cause: errors.New("it was closed"), Short: true})
	turn, _ := b.Turn(now, instance)
	takeTurn(b, turn, nil)
	kill := Signal{Job: j, Event: journal.Signal{Signo: 9, Ends: true}, To: make(chan error, 1)}
	gone := func() {
		t.Helper()
		if e := b.Signal(kill); len(e.Signalled) != 1 || !errors.Is(e.Signalled[0].Err, ErrGone) {
			t.Errorf("while it is %s: %+v", j.phase, e)
		}
	}
	gone()
	b.Renew(j)
	turn, _ = b.Turn(now, instance)
	for _, s := range takeTurn(b, turn, nil).Start {
		b.Ask(s)
		gone()
		b.Asked(j, "its process")
	}
	b.Began(j, journal.Started{Address: "127.0.0.1:80"}, now)
	turn, _ = b.Turn(now, instance)
	if e := takeTurn(b, turn, nil); len(e.Held) != 1 || !e.Held[0].Go || len(turn.Steps) != 1 {
		t.Errorf("%+v, %d steps", e, len(turn.Steps))
	}
}

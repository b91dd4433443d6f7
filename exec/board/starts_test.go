package board

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
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
	claim := accepts(b, time.Unix(1_000_000, 0), journal.RowWaiting, 1, 2, 3)
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
	claims(t, b, now, 1)
	j := b.Job(1)
	must.Equal(t, j.phase, Asked, "its start is")
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

// The end of a job is journalled in one turn, with all of its story and the announcement of the job that
// follows in its slot: first come, first served.
func TestASlotPassesOnInOneTurn(t *testing.T) {
	t.Parallel()
	b, now := New(Config{Targets: map[string]int{"a": 1}}), time.Unix(1_000_000, 0)
	claims(t, b, now, 3, 2, 1)
	b.Ended(b.Job(3), journal.Started{Pid: 7}, Outcome{Done: journal.Done{Result: "ok"}})
	turn, _ := b.Turn(now, instance)
	var got []string
	for _, s := range turn.Steps {
		for _, d := range s.Drafts {
			got = append(got, fmt.Sprintf("%d %s", d.Job, d.Payload.Kind()))
		}
	}
	check.Equal(t, cmp.Diff([]string{"3 started", "3 done", "2 running"}, got), "", "journalled (-want +got)")
}

// What has not started is taken back where its target is paused, removed or unable, and where the worker
// stops, wherever it is on its way: a background job is given back. A job that a client wants run here
// waits while its target is paused. A second attempt can't be given back: it waits, is left to the next
// start of the worker, or ends as one of unknown outcome.
//
// Regression: a job was started five seconds after a pause was answered, when a database that was frozen
// came back.
func TestWhatHasNotStartedIsTakenBack(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	events := map[string]func(b *Board, a *Target){
		targetPaused:          func(b *Board, a *Target) { b.Pause([]*Target{a}, now, "me") },
		stoppedEarly:          func(b *Board, _ *Target) { b.Stop() },
		notServed:             func(b *Board, a *Target) { b.Remove(a) },
		"it never says ready": func(b *Board, a *Target) { b.SetUnable(a, "it never says ready", now) },
	}
	for what, ends := range map[string]map[string]Phase{
		"a background job": {targetPaused: Leaving, stoppedEarly: Leaving, notServed: Leaving, "it never says ready": Leaving},
		"a manual job":     {targetPaused: Queued, stoppedEarly: Leaving, notServed: Leaving, "it never says ready": Leaving},
		"a second attempt": {targetPaused: Queued, stoppedEarly: Gone, notServed: Ended, "it never says ready": Queued},
	} {
		for event, end := range ends {
			for _, phase := range []Phase{Queued, Due, Announcing, Announced, Renewing} {
				b := New(Config{Targets: map[string]int{"a": 1}, Requeue: true, MaxAttempts: 3, Timing: Timing{Executor: "pool"}})
				runs := b.Adopt(journal.Job{ID: 2, Target: "a", Token: "@abcd00001", Status: journal.StatusRunning, Attempt: 1}, "its process")
				b.TakeUp(journal.Job{
					ID: 1, Target: "a", Token: "@abcd00000", Manual: what == "a manual job",
					Status: journal.StatusStarting, Attempt: 1 + one(what == "a second attempt"),
				}, true)
				j, turn := b.Job(1), Turn{}
				for at, next := range []func(){
					func() {},
					func() {
						b.Ended(runs, journal.Started{Pid: 7}, Outcome{Done: journal.Done{Result: "ok"}})
						turn, _ = b.Turn(now, "") // no runner is there
						takeTurn(b, turn, nil)
					},
					func() { turn, _ = b.Turn(now, instance) },
					func() { takeTurn(b, turn, nil) },
					func() {
						ask(t, b, Effects{Start: []Start{{Job: j, Seq: j.announced}}})
						b.Ended(j, journal.Started{}, Outcome{Fate: NotAsked, Cause: errors.New("another runner")})
						b.Turn(now, instance)
					},
				} {
					if next(); j.phase == phase {
						break
					}
					must.Equal(t, at < 4, true, "%s is never %s", what, phase)
				}
				events[event](b, b.Target("a"))
				if phase == Announcing {
					takeTurn(b, turn, nil)
				}
				if j.phase != end || end == Leaving && j.reason != event {
					t.Errorf("%s that is %s, %s: it is %s (%s), want %s", what, phase, event, j.phase, j.reason, end)
				}
				if asked, _ := b.Ask(Start{Job: j, Seq: j.announced}); asked {
					t.Errorf("%s that is %s, %s: it is started", what, phase, event)
				}
			}
		}
	}
}

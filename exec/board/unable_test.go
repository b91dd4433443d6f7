package board

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// setUnable has the executor of a target say that it can start nothing, or can again.
func (w *world) setUnable(name string, unable bool) bool {
	if t := w.b.Target(name); t != nil && t.starter.Own() {
		why := ""
		if unable {
			why = "it never says ready"
		}
		w.unable[name] = unable
		w.after(w.b.SetUnable(t, why, w.now))
	}
	return true
}

// executors are what may run the jobs of target b. Those of a are processes of their own.
var executors = rapid.SampledFrom([]string{"", "fork", "http"})

// setExecutor has the configuration read again, where target b has another executor: what the former
// one could not do counts no more.
func (w *world) setExecutor(name string) {
	terms := maps.Clone(w.config.Timing.Terms)
	if terms["b"].Executor != name {
		w.unable["b"] = false
	}
	terms["b"] = Terms{Own: true, Executor: name}
	w.config.Timing.Terms = terms
	w.after(w.b.SetTiming(w.config.Timing))
}

// checkAble checks that nothing is claimed for a target that is unable, and that no claim starts a job
// of one that is paused.
func (w *world) checkAble(drafts []journal.Draft) {
	for _, d := range drafts {
		name := w.rows[d.Job].Target
		_, starts := d.Payload.(journal.Running)
		if _, claims := d.Payload.(journal.Accepted); (claims || starts) && w.unable[name] || starts && w.paused[name] {
			w.Fatalf("job %d of %s is claimed with %+v: unable %t, paused %t", d.Job, name, d.Payload, w.unable[name], w.paused[name])
		}
	}
}

// requests tells whether the model's process is a request.
func (p *process) requests() bool { return p.job.executor == "http" }

// afterHeld checks that a request is sent once its connection is journalled, once at most, and notes
// those that the worker gives up.
func (w *world) afterHeld(e Effects) {
	for _, h := range e.Held {
		p := h.Process.(*process)
		known := w.state.Job(p.job.id)
		switch {
		case !h.Go:
			p.given = true
		case p.sent, p.given, p.ended != nil, w.process[p.job] != p:
			w.Fatalf("the request of job %d is sent: before %t, given up %t", p.job.id, p.sent, p.given)
		case known.Status != journal.StatusRunning || known.Process.Address == "" || known.Token != p.job.Token() || known.Attempt != p.job.attempt:
			w.Fatalf("the request of job %d is sent; the journal says %+v", p.job.id, known)
		default:
			p.sent = true
		}
	}
	for _, s := range e.Signalled {
		if p := w.process[s.Job]; p != nil && s.Err == nil && s.Event.Signo == 15 {
			p.given = true
		}
	}
	for _, c := range e.Cancelled {
		if p := w.process[c.Job]; p != nil && c.Err == nil {
			p.given = true
		}
	}
}

// endRequest ends a request. One that was not sent was not started, or is given up; one that is held
// waits for the journal.
func (w *world) endRequest(p *process, fates *rapid.Generator[Fate]) bool {
	o := Outcome{Fate: fates.Draw(w.T, "fate"), Done: w.outcome(), Cause: errors.New("that is why"), Short: rapid.Bool().Draw(w.T, "short")}
	switch {
	case p.sent:
		if o.Fate != Unknown {
			o.Fate = Over
		}
	case p.given:
		o.Fate, o.Done = Over, journal.Done{Result: "fail", Signal: "SIGTERM"}
	case o.Fate == NotStarted:
	case !p.begun:
		p.begun = true
		w.after(w.b.Began(p.job, p.started(), w.now))
		return true
	default:
		return false
	}
	started := journal.Started{}
	if p.begun {
		started = p.started()
	}
	if !p.sent { // a worker that is killed before its end is journalled has it made again
		w.withdrawn[w.announcedOf(p.job.id)] = true
	}
	delete(w.process, p.job)
	w.after(w.b.Ended(p.job, started, o))
	return true
}

// requestsDie ends the requests of a worker that is killed. One that was sent is in the journal with
// its connection.
func (w *world) requestsDie(before map[start]*process) {
	for _, p := range w.process {
		if !p.requests() {
			continue
		}
		known := w.state.Job(p.job.id)
		if p.sent && known.Token == p.job.Token() && known.Attempt == p.job.attempt && known.Status != journal.StatusRunning && !known.Status.Ended() {
			w.Fatalf("the request of job %d was sent; the journal says %+v", p.job.id, known)
		}
		if !p.sent {
			w.withdrawn[w.announcedOf(p.job.id)] = true
		}
		delete(before, p.job.start())
	}
}

// A target whose executor can start nothing claims nothing, gives back what has not started, tells
// clients why, and goes on when it can.
func TestATargetThatIsUnable(t *testing.T) {
	t.Parallel()
	b, now := New(Config{Targets: map[string]int{"a": 1}, Timing: Timing{Executor: "pool"}}), time.Unix(1_000_000, 0)
	a := b.Target("a")
	claim := accepts(b, now, journal.RowWaiting, 1, 2)
	if e := b.SetUnable(a, "it never says ready", now); len(e.Notes) != 1 {
		t.Errorf("notes %+v", e.Notes)
	}
	if e := b.SetUnable(a, "it ends at once", now.Add(time.Second)); len(e.Notes) != 0 {
		t.Errorf("notes %+v", e.Notes)
	}
	if why, since := a.Starter().Why(); why != "it ends at once" || !since.Equal(now) || a.Open() || a.Room(2) != 0 {
		t.Errorf("%q since %v, open %t, room %d", why, since, a.Open(), a.Room(2))
	}
	e := b.Won(claim)
	must.Equal(t, len(e.Start), 1, "starts %+v", e.Start)
	if ask, _ := b.Ask(e.Start[0]); ask {
		t.Error("a start is asked for")
	}
	turn, _ := b.Turn(now, instance)
	var drafts []journal.Payload
	for _, s := range turn.Steps {
		drafts = append(drafts, s.Drafts[0].Payload)
	}
	released := journal.Released{Reason: "it ends at once", Target: "a", Token: "@abcd00000"}
	check.Equal(t, cmp.Diff([]journal.Payload{released, released}, drafts), "", "what is journalled (-want +got)")
	if drafts, refusal := b.AcceptManual(&Claim{}, journal.Row{Job: 3, Target: "a", Status: journal.RowManual}, "@abcd00001", instance); len(drafts) != 0 ||
		refusal != "job 3 was not run: it ends at once" {
		t.Errorf("a manual job: %+v, %q", drafts, refusal)
	}
	if e := b.SetUnable(a, "", now.Add(time.Minute)); len(e.Notes) != 1 || len(e.Poll) != 1 || !a.Open() {
		t.Errorf("effects %+v, open %t", e, a.Open())
	}
}

// What a target's former executor could not do counts no more when it has another one.
func TestAnotherExecutorIsNotUnable(t *testing.T) {
	t.Parallel()
	b := New(Config{Targets: map[string]int{"a": 1, "b": 1}, Timing: Timing{Executor: "fork"}})
	for _, name := range []string{"a", "b"} {
		b.SetUnable(b.Target(name), "it never says ready", time.Unix(1, 0))
	}
	if e := b.SetTiming(Timing{Executor: "fork", Terms: map[string]Terms{"a": {Own: true}}}); len(e.Poll) != 1 || e.Poll[0] != "a" {
		t.Errorf("effects %+v", e)
	}
	if !b.Target("a").Open() || b.Target("b").Open() {
		t.Errorf("open: a %t, b %t; want a", b.Target("a").Open(), b.Target("b").Open())
	}
}

// What a service says of another attempt counts: that there is none to be, or when.
func TestAServiceSaysWhetherItIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		done  journal.Done
		after int64 // until the next attempt; 0: there is none
	}{
		{journal.Done{Result: "fail"}, -1},
		{journal.Done{Result: "fail", RetryAfter: 7}, 7},
		{journal.Done{Result: "fail", RetryAfter: 1 << 40}, 24 * 60 * 60},
		{journal.Done{Result: "fail", Final: true}, 0},
		{journal.Done{Result: "fail", Final: true, RetryAfter: 7}, 0},
		{journal.Done{Result: "ok", RetryAfter: 7}, 0},
	} {
		b, now := New(Config{Targets: map[string]int{"a": 1}, Again: true, Timing: Timing{
			Executor: "http", Terms: map[string]Terms{"a": {Attempts: 2, First: time.Hour, Most: time.Hour}},
		}}), time.Unix(1_000_000, 0)
		done := test.done
		j := &Job{id: 1, target: b.Target("a"), claim: journal.Accepted{Target: "a", Plan: &journal.Plan{}}, attempt: 1}
		b.followEnd(j, &done, false, now)
		switch {
		case test.after == 0 && done.Again != nil, test.after != 0 && done.Again == nil:
			t.Errorf("%+v: what follows is %+v", test.done, done.Again)
		case test.after > 0 && done.Again.RunAt != now.Unix()+test.after, test.after < 0 && done.Again.RunAt < now.Unix()+2000:
			t.Errorf("%+v: again after %d s", test.done, done.Again.RunAt-now.Unix())
		}
	}
}

// A target whose former jobs read as under way still, more of them than it has slots, claims
// nothing until the table shows enough of their ends; wherever these are on their way.
func TestATargetThatTheTableIsBehindOf(t *testing.T) {
	t.Parallel()
	const prefetch = 3
	for _, test := range []struct {
		name    string
		in      map[Phase]int
		unseen  []uint64
		seen    uint64
		room    int
		awaited uint64
	}{
		{name: "nothing is owed", room: 2 + prefetch},
		{name: "as much as it has slots", unseen: []uint64{10, 11}, room: 2 + prefetch},
		{name: "more", unseen: []uint64{10, 11, 12}, awaited: 10},
		{name: "far more", unseen: []uint64{10, 11, 12, 20}, awaited: 11},
		{name: "some is shown, not enough", unseen: []uint64{10, 11, 12, 20}, seen: 10, awaited: 11},
		{name: "enough is shown", unseen: []uint64{10, 11, 12, 20}, seen: 11, room: 2 + prefetch},
		{name: "ends that are being journalled count", in: map[Phase]int{Ending: 1}, unseen: []uint64{10, 11}, awaited: 10},
		{name: "so do releases", in: map[Phase]int{Leaving: 3}, unseen: []uint64{10}, awaited: 10},
		{name: "the journal is waited for, not the table", in: map[Phase]int{Ending: 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := New(Config{Targets: map[string]int{"a": 2, "b": 1}})
			target := b.Target("a")
			for phase, n := range test.in {
				target.in[phase] = n
			}
			for _, seq := range test.unseen {
				target.unseenFrom(seq)
			}
			b.Seen(test.seen)
			check.Equal(t, target.Room(prefetch), test.room, "room")
			check.Equal(t, b.Awaited(), test.awaited, "awaited is event")
			check.Equal(t, b.Target("b").Room(prefetch), 1+prefetch, "room of another target")
		})
	}
}

// What is journalled of a job at its end is what the table owes.
func TestEndsAndReleasesAreAwaited(t *testing.T) {
	t.Parallel()
	b := New(Config{Targets: map[string]int{"a": 1}})
	target := b.Target("a")
	for id, phases := range map[int64][]Phase{1: {Asked, Ended, Ending}, 2: {Queued, Leaving}} {
		j := b.newJob(id, journal.Accepted{Target: "a", Token: "@1"}, 1)
		for _, phase := range phases {
			b.move(j, phase)
		}
	}
	b.Journalled(Turn{Steps: []*Step{
		{then: b.finished, job: b.jobs[1], Events: []journal.Event{{Seq: 7, Time: time.Now()}, {Seq: 8, Time: time.Now()}}},
		{then: b.left, job: b.jobs[2], Events: []journal.Event{{Seq: 9, Time: time.Now()}}},
	}})
	if !target.behind() || b.Awaited() != 8 {
		t.Errorf("behind: %t, awaited is event %d; want the end, 8", target.behind(), b.Awaited())
	}
	if b.Seen(8); target.behind() || b.Awaited() != 0 {
		t.Errorf("behind: %t, awaited is event %d; want only the release owed, which is not more than it has slots", target.behind(), b.Awaited())
	}
}

// The table of docs/architecture.md is the one that the board goes by.
func TestTheTableOfMovesIsTheDocumentedOne(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("../../docs/architecture.md"))(t)
	_, table, found := strings.Cut(string(page), "| phase | slot |")
	if !found {
		t.Fatal("docs/architecture.md has no table of phases")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[2:]
	must.Equal(t, len(rows), len(phases), "phases are documented, there are")
	for p, row := range phases {
		var next []string
		for _, to := range row.next {
			next = append(next, to.String())
		}
		slot := ""
		if row.slot {
			slot = "holds"
		}
		name := row.name
		if Phase(p) == unborn {
			name = "(claim)"
		}
		cells := strings.Split(rows[p], "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if got, want := []string{cells[1], cells[2], cells[4]}, []string{name, slot, strings.Join(next, ", ")}; !slices.Equal(got, want) {
			t.Errorf("documented %q, want %q", got, want)
		}
	}
}

func TestAMoveThatIsNotInTheTableEndsTheWorker(t *testing.T) {
	t.Parallel()
	b := New(Config{Targets: map[string]int{"a": 1}})
	j := b.newJob(1, claimOfTarget("a"), 1)
	b.enqueue(j)
	defer func() {
		if why := recover(); why != "job 1 can't move from queued to running" {
			t.Errorf("it ended with %v", why)
		}
	}()
	b.move(j, Running)
}

func claimOfTarget(name string) journal.Accepted {
	return journal.Accepted{Target: name, Token: "@mark00000"}
}

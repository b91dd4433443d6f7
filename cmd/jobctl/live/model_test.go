package live

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"jobd/cmd/internal/operator"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
)

// What is shown is asked for once a second, what waits every five; of each kind one request is under way.
func TestEachKindIsAskedForOnceAnInterval(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	p := sit(t, f, false, 80, 24)
	p.later(10)
	if f.asked["fleet"] != 11 || f.asked["running"] != 11 || f.asked["waiting"] != 3 {
		t.Errorf("asked: %v", f.asked)
	}
	if f.query.Sort != api.SortAge || f.query.Most != 14 || f.query.Targets != nil {
		t.Errorf("asked for %+v", f.query)
	}
	p.hold = true
	p.later(10)
	if len(p.held) != 2 { // status and jobs together, what waits when that was due
		t.Fatalf("requests were sent %d times while nothing was answered", len(p.held))
	}
	p.hold = false
	for _, cmd := range p.held {
		p.run(cmd)
	}
	if f.asked["fleet"] != 13 || f.asked["running"] != 13 || f.asked["waiting"] != 5 { // they are late, and so the next follow at once
		t.Errorf("asked for: %v", f.asked)
	}
}

// Targets beyond the window are not counted; those that come into it are, at once.
func TestOnlyTargetsInTheWindowAreCounted(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	for i := range 100 {
		f.fleet.Workers[0].Value.Targets[fmt.Sprintf("t%03d", i)] = api.TargetStatus{Concurrency: 1}
	}
	p := sit(t, f, false, 80, 24)
	rows := p.model.rooms().rows[targetsPane]
	if rows < 3 || rows > 12 || len(f.counted) != rows || !slices.Contains(f.counted, "mail") {
		t.Fatalf("%d rows, counted %q", rows, f.counted)
	}
	p.press("end")
	p.later(1)
	if len(f.counted) != rows || !slices.Contains(f.counted, "t099") || slices.Contains(f.counted, "mail") {
		t.Errorf("counted %q", f.counted)
	}
	counts := f.asked["waiting"]
	p.later(3) // the fake tells nothing of them, and is not asked again for that
	check.Equal(t, f.asked["waiting"], counts, "asked … times")
	p.sees("95–102 of 102", "> t099")
}

// What was known stays, the view says since when there is no answer, keys work, and it goes on by itself.
func TestADaemonThatIsGoneAndComesBack(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	p := sit(t, f, false, 80, 24)
	p.later(1)
	f.err = errGone
	p.later(5)
	p.sees("no answer since 12:00:01: no connection to 10.0.0.1:7080: connection refused", "mail", "4711")
	p.press("tab", "down", "?")
	p.sees("keys")
	p.press("esc")
	p.sees("> 4712")
	f.err = nil
	p.later(1)
	p.misses("no answer", "refused")
}

// A daemon that takes a request and says nothing: nobody waits for it.
func TestADaemonThatIsSilent(t *testing.T) {
	t.Parallel()
	p := sit(t, oneWorker(), false, 80, 24)
	p.hold = true
	p.later(2)
	p.misses("no answer")
	p.later(2)
	p.sees("no answer since 12:00:00, waiting")
	p.press("tab", "down")
	p.sees("> 4712")
	p.press("q")
}

func TestBeforeTheFirstAnswer(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	f.err = errGone
	p := sit(t, f, false, 80, 24)
	p.sees("connection refused", "running jobs: not known")
	p.press("p", "l", "x", "down", "end")
	if f.done != nil || p.model.question != nil {
		t.Errorf("did %v", f.done)
	}
}

// Nothing is done before somebody has said yes to it.
func TestActionsAskFirst(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		keys     []string
		question string
		want     Action
	}{
		{[]string{"p"}, "pause mail?", Action{Kind: Pause, Target: "mail"}},
		{[]string{"down", "c"}, "continue report?", Action{Kind: Continue, Target: "report"}},
		{[]string{"tab", "down", "p"}, "pause mail?", Action{Kind: Pause, Target: "mail"}},
		{[]string{"tab", "x"}, "cancel job 4711 of report on node-1, process 2200?", Action{Kind: Cancel, Target: "report"}},
	} {
		f := oneWorker()
		p := sit(t, f, false, 80, 24)
		for _, no := range []string{"n", "esc", "q"} {
			p.press(test.keys...)
			p.sees(test.question + "  (y/n)")
			p.press("z", "p", "down", no)
			p.sees("nothing was done")
			p.misses("(y/n)")
			if len(f.done) > 0 {
				t.Fatalf("%q: did %+v", test.keys, f.done)
			}
			p.press("esc", "home", "tab") // back to the first table
			for p.model.chosen != targetsPane {
				p.press("tab")
			}
			p.press("home")
		}
		p.press(append(test.keys, "y")...)
		if test.want.Kind == Cancel {
			test.want.Job = f.running.Jobs[0]
		}
		if len(f.done) != 1 || f.done[0] != test.want {
			t.Errorf("%q: did %+v, want %+v", test.keys, f.done, test.want)
		}
		p.sees(": ok")
	}
}

// A poke harms nothing, and is not asked about.
func TestAPokeIsSentAtOnce(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	f.refusal = errors.New("10.0.0.1:7080: no")
	p := sit(t, f, false, 80, 24)
	p.press("l")
	if len(f.done) != 1 || f.done[0] != (Action{Kind: Poke, Target: "mail"}) {
		t.Errorf("did %+v", f.done)
	}
	p.sees("poke mail: 10.0.0.1:7080: no")
	p.later(20)
	p.misses("poke mail")
}

// While an action is not answered, everything but a second action goes on.
func TestOneActionAtATime(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	p := sit(t, f, false, 80, 24)
	p.hold = true
	p.press("l")
	p.hold = false
	p.sees("poking mail …")
	p.press("l", "p")
	if p.model.question != nil {
		t.Error("asks about a second one")
	}
	p.press("tab", "down")
	p.later(1)
	p.sees("> 4712", "poking mail …")
	p.run(p.held[0])
	p.sees("poke mail: ok")
	if len(f.done) != 1 {
		t.Errorf("did %+v", f.done)
	}
}

// The question is about what was chosen, whatever has moved there meanwhile.
func TestRowsThatMoveWhileAQuestionIsOpen(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	p := sit(t, f, false, 80, 24)
	p.press("tab", "down", "down", "x")
	f.running.Jobs = f.running.Jobs[5:]
	f.running.Total = 4
	p.later(2)
	p.press("y")
	if len(f.done) != 1 || f.done[0].Job.Job != 4713 {
		t.Errorf("did %+v", f.done)
	}
}

// The chosen job stays chosen, wherever it goes.
func TestTheChosenJobStaysChosen(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	p := sit(t, f, false, 80, 24)
	p.press("tab", "down", "down")
	p.sees("> 4713")
	f.running.Jobs = slices.Clone(f.running.Jobs[1:])
	p.later(1)
	p.sees("> 4713")
	p.press("s")
	p.later(1)
	if f.query.Sort != api.SortCPU {
		t.Errorf("asked for %+v", f.query)
	}
	p.sees("most processor time first", "> 4719") // from the top, in another order
	p.press("s", "s")
	p.sees("oldest first")
}

// A worker lists as many as fit, and more when somebody goes down there.
func TestMoreJobsThanFit(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	f.list = func(q api.RunningQuery) operator.RunningJobs {
		list := operator.RunningJobs{Total: 1000}
		for i := range q.Most {
			list.Jobs = append(list.Jobs, Job{RunningJob: api.RunningJob{Job: jobnet.Whole(i + 1), Target: "mail", Since: int64(i)}})
		}
		return list
	}
	p := sit(t, f, false, 80, 24)
	first := f.query.Most
	p.press("tab")
	for range 30 {
		p.press("down")
		p.later(1)
	}
	if first > 16 || f.query.Most != 31 {
		t.Errorf("asked for %+v, at first for %d", f.query, first)
	}
	p.sees("of 1,000", ">  31  mail")
}

// A worker that does not answer its master is named once.
func TestSilentWorkersAreLeftOut(t *testing.T) {
	t.Parallel()
	f := threeWorkers()
	p := sit(t, f, true, 120, 40)
	p.later(1)
	f.running.Errors["node-3"] = "no answer within 6s"
	p.later(1)
	p.misses("within 6s")
	p.sees("node-3: no answer within 5s", "1 silent of 4 workers")
	p.press("p")
	p.sees("pause fax on all workers?")
}

// What keeps a worker from its work is above everything.
func TestTroublesComeFirst(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	s := f.fleet.Workers[0].Value
	s.Database = &api.Standing{Since: noon, Error: "connection refused"}
	s.Runner.Standing = api.Standing{Since: noon, Error: "broken pipe"}
	s.Journal.Full, s.Journal.FullSince = "12 MiB are free", noon
	s.Launcher = &api.LaunchFailure{Broken: "no such file", Since: noon}
	s.Masters = []api.MasterStanding{{Address: "10.0.0.1:7081", Error: "invalid password"}}
	s.QuarantinedCount, s.Quarantined = 3, []api.QuarantinedRow{{Job: 5, Since: noon.Add(-time.Hour)}}
	p := sit(t, f, false, 120, 60)
	p.sees("the database is away since 12:00:00: connection refused", "the runner is not connected since 12:00:00: broken pipe",
		"the journal's disk is full since 12:00:00: 12 MiB are free", "(and 2 more) nothing is started since 12:00:00: no such file")
	s.Database, s.Runner, s.Journal, s.Launcher = &api.Standing{Reachable: true}, nil, nil, nil
	p.later(1)
	p.sees("not registered with the master 10.0.0.1:7081: invalid password", "3 rows quarantined, the first for 1h0m")
}

// What a master misses, and what nobody serves, is above everything, too.
func TestTroublesBeyondAnyWorker(t *testing.T) {
	t.Parallel()
	f := threeWorkers()
	f.fleet.Master.Down = []api.DownWorker{{Name: "four", Since: noon.Add(-24 * time.Hour).UnixMilli()}}
	f.fleet.Master.Unserved, f.fleet.Master.UnservedCount = []api.UnservedTarget{{Target: "print", Since: noon.UnixMilli()}}, 3
	p := sit(t, f, true, 120, 60)
	p.sees("worker four down since 2026-11-19 12:00:00", "target print was poked, and no worker serves it since 12:00:00")
	f.fleet.Workers, f.fleet.Master.Workers = nil, nil
	p.later(1)
	p.sees("0 workers registered")
}

package exec_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// runNow has row 1 run now.
var runNow = jobexec.PlanWish{IDs: []int64{1}, By: "somebody"}

func TestRunNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tomorrow := in(24 * time.Hour)
		tab := newTable(
			delayed(1, "a", journal.Plan{Schedule: "daily 00:00", RunAt: tomorrow, PlannedAt: tomorrow}),
			delayed(2, "elsewhere", journal.Plan{RunAt: tomorrow, PlannedAt: 7, Attempts: 2}), waiting(3, "elsewhere"), manual(4, "a"),
		)
		told := make(chan []string, 10)
		m, r, w := newMemory(t, tab, func(c *jobexec.Config) { c.OnRetried = func(targets []string) { told <- targets } })
		synctest.Wait()
		answer := must.Get(w.Plan(t.Context(), jobexec.PlanWish{IDs: []int64{1, 2, 3, 4, 5, 1}, By: "somebody"}))(t)
		want := jobexec.Answer[int64]{Jobs: map[int64]int64{1: tomorrow, 2: tomorrow}, Errors: map[int64]string{
			3: "status = waiting: only a delayed row can be run early",
			4: "status = manual: only a delayed row can be run early", 5: "job 5 not found",
		}, Requested: true}
		if diff := cmp.Diff(want, answer); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
		if got := <-told; !slices.Equal(got, []string{"a", "elsewhere"}) {
			t.Errorf("others are told of %v", got)
		}
		w.PollAll() // as that does
		p := <-r.started
		p.exit(0)
		synctest.Wait()
		if plan := tab.plan(1); plan.RunAt != tomorrow+86400 || plan.PlannedAt != tomorrow+86400 { // the run of tomorrow was made today
			t.Errorf("the row is due at %+v", plan)
		}
		if plan := tab.plan(2); plan.RunAt != time.Now().Unix() || plan.PlannedAt != 7 || plan.Attempts != 2 {
			t.Errorf("the row of another worker's target says %+v", plan)
		}
		if e := m.of(1, journal.KindPlanned); len(e) != 1 || e[0].Payload.(journal.Planned).By != "somebody" {
			t.Errorf("journalled: %+v", e)
		}
	})
}

// While it is not known whether the row was updated, nobody is told that it was.
func TestRunNowInDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(delayed(1, "a", journal.Plan{RunAt: in(time.Hour)}))
		_, _, w := newMemory(t, tab, nil)
		synctest.Wait()
		tab.change(func() { tab.commit = func(func()) error { return errAway } })
		answer, err := w.Plan(t.Context(), runNow)
		if err != nil || answer.Errors[1] != "job 1: it is unknown whether its row was changed; look at the row" {
			t.Errorf("answer %+v, %v", answer, err)
		}
		tab.change(func() { tab.commit = nil })
		if answer, err = w.Plan(t.Context(), runNow); err != nil || len(answer.Jobs) != 1 {
			t.Errorf("answer to a second try %+v, %v", answer, err)
		}
	})
}

func TestRunNowWithoutDelays(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(), nil)
	f.start()
	if _, err := f.worker.Plan(t.Context(), runNow); err == nil || !strings.Contains(err.Error(), "use_columns") {
		t.Errorf("refused with %v", err)
	}
}

// What can't be done now is told at once: clients wait no longer than a claim by hand would.
func TestRunNowWhileNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	for want, hinder := range map[string]func(f *fixture){
		"no row was changed: there is no room for the journal: 10 bytes are left": func(f *fixture) {
			f.disk.set(errors.New("10 bytes are left"))
		},
		"no row was changed: the database could not be reached": func(f *fixture) {
			f.mirror.setAway(true)
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, newTable(delayed(1, "c", journal.Plan{RunAt: in(time.Hour)})), func(c *jobexec.Config) { c.Delays = true })
			f.start()
			hinder(f)
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // less than it would be tried for
			defer cancel()
			_, err := f.worker.Plan(ctx, runNow)
			var refused jobexec.RefusedError
			if !errors.As(err, &refused) || err.Error() != want {
				t.Errorf("told %v, want %q", err, want)
			}
			f.tells(1, "")
		})
	}
}

// A table may have a status of that name that is not jobd's: such a row is left alone, and nothing
// is journalled of it.
func TestACancelWithoutDelays(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(delayed(1, "a", journal.Plan{RunAt: in(time.Hour)})), nil)
	f.start()
	f.told(jobexec.CancelWish{IDs: []int64{1}, Rows: true}, map[int64]string{
		1: "job 1 is delayed, and delayed rows are not run here: the key use_columns does not name run_at",
	})
	if got := f.table.status(1); got != journal.RowDelayed {
		t.Errorf("the row is %s", got)
	}
	if events := f.events(1); len(events) > 0 {
		t.Errorf("the journal says %+v", events)
	}
}

// A wish to end the schedule counts for a run that is being cancelled already, and gives it no more time.
func TestACancelOfTheScheduleAfterOneOfTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(delayed(1, "a", journal.Plan{Schedule: "every 1h"}))
		_, r, w := newMemory(t, tab, nil)
		p := <-r.started
		wish := jobexec.CancelWish{IDs: []int64{1}, Grace: time.Minute, By: "somebody"}
		for _, schedule := range []bool{false, true, false} {
			wish.Schedule = schedule
			if told, err := w.Cancel(t.Context(), wish); err != nil || len(told.Jobs) != 1 {
				t.Fatalf("told %+v, %v", told, err)
			}
			wish.Grace = time.Hour
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := <-p.signals; got != 15 {
			t.Errorf("signal %d", got)
		}
		if got := <-p.signals; got != 9 {
			t.Errorf("signal %d", got)
		}
		p.kill("SIGKILL")
		synctest.Wait()
		if tab.status(1) != journal.RowDone {
			t.Errorf("the row is %s", tab.status(1))
		}
	})
}

// What people do with rows that are delayed: cancel them, set them back, run them by hand.
func TestHandsOnDelayedRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		later := in(time.Hour)
		tab := newTable(delayed(1, "a", journal.Plan{RunAt: later}), delayed(2, "a", journal.Plan{RunAt: later}), delayed(3, "a", journal.Plan{RunAt: later}))
		_, _, w := newMemory(t, tab, nil)
		synctest.Wait()
		cancelled, err := w.Cancel(t.Context(), jobexec.CancelWish{IDs: []int64{1}, Rows: true, By: "somebody"})
		if err != nil || len(cancelled.Jobs) != 1 || tab.status(1) != journal.RowIgnored {
			t.Errorf("cancelled: %+v, %v; the row is %s", cancelled, err, tab.status(1))
		}
		back, err := w.SetBack(t.Context(), jobexec.RetryWish{IDs: []int64{2}, By: "somebody"})
		if why := back.Errors[2]; err != nil || !strings.Contains(why, "status = delayed") || !strings.Contains(why, "run-now") {
			t.Errorf("set back: %+v, %v", back, err)
		}
		ran, err := w.RunManual(t.Context(), []int64{3}, "somebody")
		if want := map[int64]string{3: "status = delayed != manual"}; err != nil || !maps.Equal(ran.Errors, want) {
			t.Errorf("run by hand: %+v, %v", ran, err)
		}
		if tab.status(2) != journal.RowDelayed || tab.status(3) != journal.RowDelayed || tab.plan(3).RunAt != later {
			t.Errorf("rows are %s and %s", tab.status(2), tab.status(3))
		}
	})
}

// Targets have launchers and limits of their own, which may be replaced.
func TestTermsOfATarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		row := waiting(2, "b")
		row.Plan = &journal.Plan{Timeout: 5}
		tab := newTable(waiting(1, "a"), row)
		own := jobexec.Launcher{Words: []string{"/own", "{id}"}}
		m, r, w := newMemory(t, tab, func(c *jobexec.Config) {
			c.Terms = map[string]jobexec.Terms{"b": {Launcher: &own, Timeout: time.Hour, KillAfter: 1500 * time.Millisecond}}
		})
		specs := make(map[int64]jobexec.Spec)
		for range 2 {
			p := <-r.started
			specs[p.spec.Job] = p.spec
			p.exit(0)
		}
		if one := specs[1]; one.Timeout != 0 || one.KillAfter != 0 || one.Argv[0] != "/launcher" || len(one.Env) != 1 {
			t.Errorf("job 1 was started as %+v", one)
		}
		two, deadline := specs[2], in(5*time.Second)
		if two.Timeout != 5*time.Second || two.KillAfter != 2*time.Second || !slices.Equal(two.Argv, []string{"/own", "2"}) || !slices.Contains(two.Env, deadlineOf(deadline)) {
			t.Errorf("job 2 was started as %+v", two)
		}
		if running := m.of(2, journal.KindRunning)[0].Payload.(journal.Running); running.Timeout != 5 || running.KillAfter != 2 {
			t.Errorf("its start was journalled as %+v", running)
		}
		w.SetTerms(jobexec.Launcher{Words: []string{"launcher"}}, map[string]jobexec.Terms{"a": {Launcher: &own, Timeout: time.Minute}}, nil, false)
		tab.insert(waiting(3, "a"))
		w.PollAll()
		p := <-r.started
		p.exit(0)
		if p.spec.Timeout != time.Minute || p.spec.KillAfter != 10*time.Second || p.spec.Argv[0] != "/own" {
			t.Errorf("job 3 was started as %+v", p.spec)
		}
	})
}

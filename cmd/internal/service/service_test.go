package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/refusals"
	jobexec "jobd/exec"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
	"jobd/store/storetest/check"
)

// stub is a worker and its process: it notes what it was told, and does what the test says.
type stub struct {
	did     []string
	events  []journal.Payload
	reloads func()
	refuses error // every call
	full    error // the journal
	answer  jobexec.Answer[jobexec.Result]
	sent    map[int64]bool
	setBack jobexec.Answer[string]
	ranNow  jobexec.Answer[int64]
	status  jobexec.Status
	running []jobexec.JobStanding
	output  func(jobexec.Glance) (jobexec.JobOutput, bool, error)
	ended   func() (*journal.Event, int, error)
	wrong   error // what a start would say
	stops   bool
	away    api.Standing // zero: the database can be reached

	explained map[int64]jobexec.Explanation
	standings map[string]jobexec.TargetStanding

	cancelled jobexec.Cancelled

	terms map[string]jobexec.Terms
	zone  *time.Location
	clock time.Time // what the table's server says; zero: it is not known
}

func (s *stub) LookAtTable() { _ = s.note("look at the table") }

func (s *stub) ServerTime() time.Time {
	if s.clock.IsZero() {
		return time.Now()
	}
	return s.clock
}

func (s *stub) TermsOf(target string) (jobexec.Terms, *time.Location) {
	if s.zone == nil {
		return s.terms[target], time.UTC
	}
	return s.terms[target], s.zone
}

func (s *stub) note(format string, args ...any) error {
	s.did = append(s.did, fmt.Sprintf(format, args...))
	return s.refuses
}

func (s *stub) Poll(targets []string) error { return s.note("poll %v", targets) }

func (s *stub) Pause(targets []string, by string) error { return s.note("pause %v by %s", targets, by) }

func (s *stub) Continue(targets []string, by string) error {
	return s.note("continue %v by %s", targets, by)
}

func (s *stub) Recycle(targets []string, why string) error {
	return s.note("recycle %v, %s", targets, why)
}

func (s *stub) AddTarget(target string, n int, by string) error {
	return s.note("add %s %d by %s", target, n, by)
}

func (s *stub) SetConcurrency(target string, n int, by string) error {
	return s.note("set %s %d by %s", target, n, by)
}

func (s *stub) RemoveTarget(target, by string) error { return s.note("remove %s by %s", target, by) }

func (s *stub) RunManual(_ context.Context, ids []int64, by string) (jobexec.Answer[jobexec.Result], error) {
	return s.answer, s.note("run %v by %s", ids, by)
}

func (s *stub) JobsOf(string, bool) []int64 { return []int64{1} }

func (s *stub) Plan(_ context.Context, wish jobexec.PlanWish) (jobexec.Answer[int64], error) {
	return s.ranNow, s.note("run now %v by %s", wish.IDs, wish.By)
}

func (s *stub) SetBack(_ context.Context, wish jobexec.RetryWish) (jobexec.Answer[string], error) {
	return s.setBack, s.note("retry %v %v %v by %s", wish.IDs, wish.Finished, wish.To, wish.By)
}

func (s *stub) SendSignal(signals map[int64]int, by string) map[int64]bool {
	_ = s.note("signal %v by %s", signals, by)
	return s.sent
}

func (s *stub) Cancel(_ context.Context, wish jobexec.CancelWish) (jobexec.Cancelled, error) {
	return s.cancelled, s.note("cancel %v of %v within %v, rows %t, by %s", wish.IDs, wish.Targets, wish.Grace, wish.Rows, wish.By)
}

func (s *stub) Status() jobexec.Status { return s.status }

func (s *stub) Running([]string) []jobexec.JobStanding { return s.running }

func (s *stub) Output(_ context.Context, g jobexec.Glance) (jobexec.JobOutput, bool, error) {
	return s.output(g)
}

func (s *stub) Ended(context.Context, int64, func(string) bool) (*journal.Event, int, error) {
	return s.ended()
}

func (s *stub) HandOver() { _ = s.note("hand over") }

func (s *stub) Note(payload journal.Payload) error {
	if s.full == nil {
		s.events = append(s.events, payload)
		_ = s.note("journal %s", payload.Kind())
	}
	return s.full
}

func (s *stub) Describe(_ jobexec.Status, status *api.WorkerStatus) { status.Name = "node-1" }

func (s *stub) Reload(by string) (api.Reloaded, error) {
	if s.wrong != nil {
		return api.Reloaded{}, s.wrong
	}
	s.reloads()
	return api.Reloaded{File: "/etc/jobd.conf", Changed: []string{by}}, nil
}

func (s *stub) Follow(context.Context) (api.Successor, error) {
	return api.Successor{PID: 7, Address: "127.0.0.1:7080"}, s.wrong
}

func (s *stub) Restart(by string) { _ = s.note("restart by %s", by) }

func (s *stub) Stopping() bool { return s.stops }

func (s *stub) Explain([]int64) map[int64]jobexec.Explanation { return s.explained }

func (s *stub) ExplainTargets([]string) map[string]jobexec.TargetStanding { return s.standings }

// asked is a call as a front makes it.
func asked(about string) Call {
	return Call{
		Who:   principal.Known("", "", "127.0.0.1:1"),
		From:  "10.0.0.5:4711 via master 10.0.0.1:7081",
		About: func() string { return about },
	}
}

const caller = "10.0.0.5:4711 via master 10.0.0.1:7081"

func newService(s *stub) *Service {
	log := slog.New(slog.DiscardHandler)
	return New(Config{Worker: s, Logger: log, Process: s, Refusals: refusals.New(s.Note, log)})
}

// Every change reaches the worker with the name of who wants it, and a refusal of the worker's is
// told as it is, and journalled.
func TestChangesKnowWhoAsks(t *testing.T) {
	t.Parallel()
	ctx, targets, slots := t.Context(), api.Targets{Targets: []string{"a"}}, api.Slots{Target: "a", Concurrency: 3}
	for want, test := range map[string]struct {
		request string
		do      func(*Service, Call) error
	}{
		"pause [a] by ":              {"pause", func(s *Service, c Call) error { _, err := s.Pause(ctx, c, targets); return err }},
		"continue [a] by ":           {"continue", func(s *Service, c Call) error { _, err := s.Continue(ctx, c, targets); return err }},
		"recycle [a], asked for by ": {"recycle", func(s *Service, c Call) error { _, err := s.Recycle(ctx, c, targets); return err }},
		"add a 3 by ":                {"add-target", func(s *Service, c Call) error { _, err := s.AddTarget(ctx, c, slots); return err }},
		"set a 3 by ":                {"set-target-concurrency", func(s *Service, c Call) error { _, err := s.SetConcurrency(ctx, c, slots); return err }},
		"remove a by ": {"remove-target", func(s *Service, c Call) error {
			_, err := s.RemoveTarget(ctx, c, api.Target{Target: "a"})
			return err
		}},
		"run [5 -6] by ": {"run-manual", func(s *Service, c Call) error {
			_, err := s.RunManual(ctx, c, api.Manual{IDs: []jobnet.Whole{5, -6}})
			return err
		}},
	} {
		worker := &stub{answer: jobexec.Answer[jobexec.Result]{Requested: true}}
		if err := test.do(newService(worker), asked("x")); err != nil || !reflect.DeepEqual(worker.did, []string{want + caller}) {
			t.Errorf("%s: %q, %v", want, worker.did, err)
		}
		worker = &stub{refuses: fmt.Errorf("worker: %w", jobexec.RefusedError("not now"))}
		err := test.do(newService(worker), asked(`x=["a"]`))
		var refusal jobnet.Refusal
		if !errors.As(err, &refusal) || refusal != "not now" {
			t.Errorf("%s: the error is %v", test.request, err)
		}
		refused := journal.Refused{Request: test.request, About: `x=["a"]`, Reason: "not now", By: caller}
		if !reflect.DeepEqual(worker.events, []journal.Payload{refused}) {
			t.Errorf("%s: journalled %+v, want %+v", test.request, worker.events, refused)
		}
		worker = &stub{refuses: fmt.Errorf("append: %w", journal.ErrFull)}
		if err := test.do(newService(worker), asked("x")); !errors.As(err, &refusal) || !strings.HasPrefix(string(refusal), "there is no room for the journal: ") {
			t.Errorf("%s: a full disk is told as %v", test.request, err)
		}
		worker = &stub{refuses: errors.New("disk")}
		if err := test.do(newService(worker), asked("x")); err == nil || errors.As(err, &refusal) || len(worker.events) > 0 {
			t.Errorf("%s: %v, which is no refusal, journalled as %+v", test.request, err, worker.events)
		}
	}
	worker := &stub{refuses: jobexec.RefusedError("invalid target 'a'")}
	if _, err := newService(worker).Poll(ctx, asked("x"), targets); jobnet.CodeOf(err) != jobnet.CodeRefused || len(worker.events) > 0 {
		t.Errorf("poll: %v, journalled %+v: it changes nothing", err, worker.events)
	}
}

// Several refusals of one request are told as one.
func TestRefusalsAreToldAsOne(t *testing.T) {
	t.Parallel()
	worker := &stub{refuses: errors.Join(jobexec.RefusedError("not this one"), jobexec.RefusedError("nor that"))}
	_, err := newService(worker).Recycle(t.Context(), asked("x"), api.Targets{Targets: []string{"a"}})
	refused := journal.Refused{Request: "recycle", About: "x", Reason: "not this one; nor that", By: caller}
	if err == nil || err.Error() != refused.Reason || !reflect.DeepEqual(worker.events, []journal.Payload{refused}) {
		t.Errorf("%v, journalled %+v", err, worker.events)
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	odd := map[string]bool{"x": true, "y": false}
	for name, test := range map[string]struct {
		jobs   map[jobnet.Whole]int
		odd    map[string]bool
		sent   map[int64]bool
		want   map[string]bool
		events int
	}{
		"delivered":       {map[jobnet.Whole]int{5: 15, 6: 15}, odd, map[int64]bool{5: true, 6: false}, map[string]bool{"5": true, "6": false, "x": false, "y": false}, 0},
		"to nobody":       {map[jobnet.Whole]int{5: 15}, nil, map[int64]bool{5: false}, map[string]bool{"5": false}, 1},
		"a probe":         {map[jobnet.Whole]int{5: 0}, map[string]bool{"y": false}, map[int64]bool{5: false}, map[string]bool{"5": false, "y": false}, 0},
		"of what is none": {nil, odd, nil, map[string]bool{"x": false, "y": false}, 1},
		"none":            {nil, nil, nil, map[string]bool{}, 0},
	} {
		worker := &stub{sent: test.sent}
		got, err := newService(worker).SendSignal(t.Context(), asked("x"), api.Signals{Jobs: test.jobs, Odd: test.odd})
		if err != nil || !reflect.DeepEqual(got.Jobs, test.want) || len(worker.events) != test.events {
			t.Errorf("%s: %v, %v, journalled %+v", name, got, err, worker.events)
		}
	}
}

func TestStatusIsPutTogether(t *testing.T) {
	t.Parallel()
	worker := &stub{status: jobexec.Status{
		Targets: map[string]jobexec.TargetStatus{"a": {Paused: true, Concurrency: 3, Length: 2, Why: "paused"}}, Clients: 1, UnownedRows: 2, Doubted: 3,
		Launcher: &jobexec.Outage{Why: "no such file"},
	}}
	got, err := newService(worker).Status(t.Context(), asked(""), api.None{})
	want := api.WorkerStatus{
		Targets: map[string]api.TargetStatus{"a": {Paused: true, Concurrency: 3, Length: 2, Why: "paused"}}, Clients: 1, UnownedRows: 2, ClaimsInDoubt: 3,
		Launcher: &api.LaunchFailure{Broken: "no such file"}, Name: "node-1",
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// Who asked for a restart is in the journal before the worker begins to stop.
func TestRestartIsJournalledBeforeItBegins(t *testing.T) {
	t.Parallel()
	worker := &stub{}
	s := newService(worker)
	told, err := s.Restart(t.Context(), asked(""), api.Restarting{Next: true})
	if err != nil || told.Next == nil || *told.Next != (api.Successor{PID: 7, Address: "127.0.0.1:7080"}) {
		t.Errorf("%+v, %v", told, err)
	}
	check.DeepEqual(t, worker.did, []string{"journal requested", "hand over", "restart by " + caller}, "done")
	if want := []journal.Payload{journal.Requested{Request: "restart", By: caller}}; !reflect.DeepEqual(worker.events, want) {
		t.Errorf("journalled %+v, want %+v", worker.events, want)
	}
	if _, err := s.Restart(t.Context(), asked(""), api.Restarting{}); err == nil || err.Error() != "not restarted: a restart is under way already" {
		t.Errorf("the second: %v", err)
	}
}

// A reload tells which targets stand otherwise than before, and why it was refused.
func TestReloadTellsWhatHasChanged(t *testing.T) {
	t.Parallel()
	target := func(slots int) jobexec.TargetStatus { return jobexec.TargetStatus{Concurrency: slots} }
	worker := &stub{status: jobexec.Status{Targets: map[string]jobexec.TargetStatus{"same": target(1), "gone": target(2), "other": target(3)}}}
	worker.reloads = func() {
		worker.status.Targets = map[string]jobexec.TargetStatus{"same": target(1), "other": target(4), "new": target(5)}
	}
	s := newService(worker)
	told, err := s.Reload(t.Context(), asked(""), api.None{})
	if err != nil || len(told.Before) != 2 || told.Before["gone"].Concurrency != 2 || told.Before["other"].Concurrency != 3 ||
		len(told.After) != 2 || told.After["other"].Concurrency != 4 || told.After["new"].Concurrency != 5 || told.Changed[0] != caller {
		t.Errorf("%+v, %v", told, err)
	}
	worker.wrong = errors.New("/etc/jobd.conf:3: port: no")
	if _, err := s.Reload(t.Context(), asked(""), api.None{}); err == nil || err.Error() != "not reloaded: /etc/jobd.conf:3: port: no" {
		t.Errorf("%v", err)
	}
}

// A restart that is refused changes nothing, and may be asked for again.
func TestRestartsThatAreRefused(t *testing.T) {
	t.Parallel()
	for want, worker := range map[string]*stub{
		"not restarted: no such file": {wrong: errors.New("no such file")},
		"not restarted: disk full":    {full: errors.New("disk full")},
	} {
		s := newService(worker)
		if _, err := s.Restart(t.Context(), asked(""), api.Restarting{}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		worker.wrong, worker.full = nil, nil
		if told, err := s.Restart(t.Context(), asked(""), api.Restarting{}); err != nil || told.Next != nil {
			t.Errorf("again: %+v, %v", told, err)
		}
	}
	s := newService(&stub{stops: true})
	if _, err := s.Restart(t.Context(), asked(""), api.Restarting{}); err == nil || err.Error() != "not restarted: the worker is stopping" {
		t.Errorf("while it stops: %v", err)
	}
}

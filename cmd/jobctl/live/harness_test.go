package live

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"jobd/cmd/internal/operator"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write what is shown into testdata")

// noon is when all of this happens.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// fake is a daemon that answers what the test says, at once.
type fake struct {
	fleet   operator.Census
	running operator.RunningJobs
	waiting Waiting
	err     error // in place of every answer
	refusal error // of actions

	list func(api.RunningQuery) operator.RunningJobs // in place of running; nil: that

	asked   map[string]int
	query   api.RunningQuery
	counted []string
	done    []Action
}

func (f *fake) Fleet(context.Context) (*operator.Census, error) {
	f.asked["fleet"]++
	return &f.fleet, f.err
}

func (f *fake) Running(_ context.Context, q api.RunningQuery) (operator.RunningJobs, error) {
	f.asked["running"]++
	f.query = q
	if f.list != nil {
		f.running = f.list(q)
	}
	return f.running, f.err
}

func (f *fake) Waiting(_ context.Context, _ *operator.Census, targets []string) (Waiting, error) {
	f.asked["waiting"]++
	f.counted = targets
	return f.waiting, f.err
}

func (f *fake) Do(_ context.Context, a Action) (string, error) {
	f.done = append(f.done, a)
	return "ok", f.refusal
}

// person sits before a window of a model without a terminal.
type person struct {
	t     *testing.T
	model *model
	fake  *fake
	now   time.Time
	held  []tea.Cmd // requests under way, while hold is set
	hold  bool
}

func sit(t *testing.T, f *fake, master bool, width, height int) *person {
	t.Helper()
	f.asked = map[string]int{}
	p := &person{t: t, fake: f, now: noon}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	daemon := "worker at 10.0.0.1:7080"
	if master {
		daemon = "master at 10.0.0.1:7081"
	}
	p.model = newModel(ctx, Config{
		Source: f, Daemon: daemon, Master: master, Interval: time.Second,
		Now: func() time.Time { return p.now }, Location: time.UTC,
	})
	p.model.wake = func(time.Duration) tea.Cmd { return nil }
	p.run(p.model.Init())
	p.send(tea.WindowSizeMsg{Width: width, Height: height})
	return p
}

// run carries commands out, and has their answers taken.
func (p *person) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	if p.hold {
		p.held = append(p.held, cmd)
		return
	}
	switch msg := cmd().(type) {
	case nil:
	case tea.BatchMsg:
		for _, one := range msg {
			p.run(one)
		}
	default:
		p.send(msg)
	}
}

func (p *person) send(msg tea.Msg) {
	_, cmd := p.model.Update(msg)
	p.run(cmd)
}

// press presses keys, one after the other.
func (p *person) press(keys ...string) {
	special := map[string]rune{"tab": tea.KeyTab, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "end": tea.KeyEnd, "home": tea.KeyHome, "pgup": tea.KeyPgUp, "backspace": tea.KeyBackspace}
	for _, key := range keys {
		if code, ok := special[key]; ok {
			p.send(tea.KeyPressMsg{Code: code})
			continue
		}
		p.send(tea.KeyPressMsg{Code: rune(key[0]), Text: key})
	}
}

// later lets time pass, second by second.
func (p *person) later(seconds int) {
	for range seconds {
		p.now = p.now.Add(time.Second)
		p.send(tick{})
	}
}

func (p *person) sees(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		check.Contains(p.t, p.model.screen(), text, "there is no … in")
	}
}

func (p *person) misses(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		if strings.Contains(p.model.screen(), text) {
			p.t.Errorf("there is %q in\n%s", text, p.model.screen())
		}
	}
}

// golden compares what is seen with a file.
func (p *person) golden(name string) {
	p.t.Helper()
	got := p.model.screen() + "\n"
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	check.Equal(p.t, len(lines), p.model.height, "%s: … lines in a window of", name)
	for _, line := range lines {
		if wide(line) > p.model.width {
			p.t.Errorf("%s: a line is wider than %d: %s", name, p.model.width, line)
		}
	}
	file := filepath.Join("testdata", name+".txt")
	if *update {
		must.Do(p.t, os.WriteFile(file, []byte(got), 0o644))
	}
	want := must.Get(os.ReadFile(file))(p.t)
	check.Equal(p.t, cmp.Diff(string(want), got), "", "%s", name)
}

var errGone = errors.New("no connection to 10.0.0.1:7080: connection refused")

func pointer[T any](v T) *T { return &v }

// status is a worker that tells everything, and does well.
func status(name string, targets map[string]api.TargetStatus) *api.WorkerStatus {
	return &api.WorkerStatus{
		Name: name, Version: "1.4.0", Targets: targets, Started: noon.Add(-2*time.Hour - 3*time.Minute).UnixMilli(),
		Journal:  &api.JournalStatus{Events: 184_412, Mirrored: 184_410},
		Database: &api.Standing{Reachable: true}, Runner: &api.RunnerStanding{Standing: api.Standing{Reachable: true}},
	}
}

// oneWorker has jobs of two targets, one of them paused.
func oneWorker() *fake {
	targets := map[string]api.TargetStatus{
		"mail":   {Concurrency: 10, Running: 8, Prefetched: 2, Started: 120, Ended: 118, Failed: 2},
		"report": {Concurrency: 4, Running: 1, Paused: true, PausedSince: noon.Add(-8 * time.Minute).UnixMilli(), PausedBy: "10.0.0.5", Started: 3, Ended: 4},
	}
	f := &fake{
		fleet: operator.Census{Workers: []worker{{From: &operator.Worker{}, Value: status("node-1", targets)}}},
		waiting: Waiting{Targets: map[string]api.WaitingTarget{
			"mail": {Count: 10_000, More: true, Oldest: noon.Add(-90 * time.Minute).Unix()}, "report": {Count: 12, Oldest: noon.Add(-25 * time.Second).Unix()},
		}},
	}
	for i := range 9 {
		target := "mail"
		if i == 0 {
			target = "report"
		}
		f.running.Jobs = append(f.running.Jobs, Job{Worker: "node-1", RunningJob: api.RunningJob{
			Job: jobnet.Whole(4711 + i), Target: target, Attempt: 1, PID: 2200 + i, Since: noon.Add(-time.Duration(9-i) * 11 * time.Second).UnixMilli(),
			CPU: pointer(int64(1234 * (i + 1))), Memory: pointer(int64(3<<20) * int64(i+1)), Processes: 1, Cancelled: i == 2, Manual: i == 3,
		}})
	}
	f.running.Total = 9
	return f
}

// threeWorkers are those of a master: one does well, one has no database, one hangs; a fourth is the
// original.
func threeWorkers() *fake {
	f := oneWorker()
	one := f.fleet.Workers[0]
	one.From = &operator.Worker{Name: "node-1", Address: "10.0.0.11:40001", Targets: []string{"mail", "report"}}
	two := status("node-2", map[string]api.TargetStatus{
		"mail": {Concurrency: 10, Why: "the database can't be reached"}, "video": {Concurrency: 2, Running: 2, Started: 1, Ended: 1, Failed: 1},
	})
	two.Database = &api.Standing{Since: noon.Add(-3 * time.Minute), Error: "dial tcp 10.0.0.9:3306: connection refused"}
	old := &api.WorkerStatus{Targets: map[string]api.TargetStatus{"fax": {Concurrency: 1, Length: 1}}}
	from := func(number int, targets ...string) *operator.Worker {
		return &operator.Worker{Name: fmt.Sprintf("node-%d", number), Address: fmt.Sprintf("10.0.0.1%d:4000%[1]d", number), Targets: targets}
	}
	f.fleet.Master = &api.FleetStatus[*api.WorkerStatus]{Workers: make([]api.FleetWorker[*api.WorkerStatus], 4)}
	f.fleet.Workers = []worker{
		one,
		{From: from(2, "mail", "video"), Value: two},
		{From: from(3, "mail", "print"), Err: errors.New("no answer within 5s")},
		{From: from(4, "fax"), Value: old},
	}
	f.running.Errors = map[string]string{"node-4": "it can't report this, because it is an older jobd, or the original: unknown request 'running'"}
	f.running.Total = 1200
	for i := range 60 {
		f.running.Jobs = append(f.running.Jobs, Job{Worker: "node-2", RunningJob: api.RunningJob{
			Job: jobnet.Whole(90_001 + i), Target: "video", Attempt: 2, PID: 31_000 + i, Since: noon.Add(-time.Duration(100-i) * time.Hour).UnixMilli(), Adopted: i == 1,
		}})
	}
	f.waiting.Targets["video"] = api.WaitingTarget{}
	f.waiting.Targets["fax"] = api.WaitingTarget{Error: "lock wait timeout"}
	return f
}

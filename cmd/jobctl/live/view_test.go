package live

import (
	"errors"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"jobd/net/api"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// What a person sees, in windows of two sizes; without colours nothing is missing.
func TestViews(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fake          *fake
		master        bool
		width, height int
		keys          []string
	}{
		"worker-80x24":  {fake: oneWorker(), width: 80, height: 24},
		"worker-200x60": {fake: oneWorker(), width: 200, height: 60},
		"worker-60x12":  {fake: oneWorker(), width: 60, height: 12},
		"master-80x24":  {fake: threeWorkers(), master: true, width: 80, height: 24, keys: []string{"tab", "down"}},
		"master-200x60": {fake: threeWorkers(), master: true, width: 200, height: 60},
		"help-80x24":    {fake: oneWorker(), width: 80, height: 24, keys: []string{"?"}},
		"asks-80x24":    {fake: oneWorker(), width: 80, height: 24, keys: []string{"down", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sit(t, test.fake, test.master, test.width, test.height)
			p.later(1)
			p.press(test.keys...)
			p.golden(name)
		})
	}
}

func TestAWindowThatIsTooSmallSaysSo(t *testing.T) {
	t.Parallel()
	p := sit(t, oneWorker(), false, 30, 8)
	p.sees("needs 40×10", "this is 30×8")
	p.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	p.sees("node-1", "4711")
	for _, size := range []tea.WindowSizeMsg{{Width: 1, Height: 1}, {Width: 0, Height: 0}, {Width: 40, Height: 10}, {Width: 500, Height: 200}} {
		p.send(size)
		if lines := strings.Split(p.model.screen(), "\n"); len(lines) > max(1, size.Height) {
			t.Errorf("%v: %d lines", size, len(lines))
		}
	}
}

// In every window of usable size each line fits, and all that belongs there is there.
func TestEveryWindowIsFilledAndNoMore(t *testing.T) {
	t.Parallel()
	for _, master := range []bool{false, true} {
		for width := leastWidth; width < 130; width += 7 {
			for height := leastHeight; height < 40; height++ {
				f := oneWorker()
				if master {
					f = threeWorkers()
				}
				p := sit(t, f, master, width, height)
				lines := strings.Split(p.model.screen(), "\n")
				must.Equal(t, len(lines), height, "%d×…: … lines", width)
				for _, line := range lines {
					if wide(line) > width {
						t.Fatalf("%d×%d: %q", width, height, line)
					}
				}
				p.sees("jobctl top", "q quit"[:min(6, width)])
			}
		}
	}
}

// What daemons say steers no terminal and takes no other line's place.
func TestTextsOfOthersAreHarmless(t *testing.T) {
	t.Parallel()
	const nasty = "a\x1b[2J\u202eb\rc\u200b\nd\x07"
	f := threeWorkers()
	f.fleet.Master.Down = []api.DownWorker{{Name: nasty}}
	f.fleet.Workers[0].From.Name = nasty
	f.fleet.Workers[2].Err = errors.New(nasty)
	f.fleet.Workers[1].Value.Database.Error = nasty
	f.fleet.Workers[1].Value.Targets[nasty] = api.TargetStatus{Why: nasty, Paused: true, PausedBy: nasty}
	f.running.Jobs[0].Target, f.running.Jobs[0].Worker = nasty, nasty
	f.running.Errors = map[string]string{"node-4": nasty}
	f.waiting.Silent = []error{errors.New(nasty)}
	f.refusal = errors.New(nasty)
	p := sit(t, f, true, 120, 40)
	p.later(1)
	look := func(what string) {
		t.Helper()
		if text := p.model.screen(); strings.ContainsAny(text, "\x1b\r\x07\u202e\u200b") || !strings.Contains(text, `a\x1b[2J`) {
			t.Errorf("%s: %q", what, text)
		}
	}
	look("tables")
	p.press("home", "p")
	look("a question")
	p.press("y")
	look("a refusal")
	p.press("tab", "home", "x")
	look("a question about a job")
	p.press("n")
	p.model.config.Colour = true
	if text := p.model.screen(); !strings.Contains(text, "\x1b[") || strings.Contains(text, "\x1b[2J") {
		t.Errorf("with colours: %q", text)
	}
}

// Colours repeat what is said: without them every character is the same.
func TestColoursAreDecoration(t *testing.T) {
	t.Parallel()
	p := sit(t, threeWorkers(), true, 100, 30)
	p.later(1)
	plain := p.model.screen()
	p.model.config.Colour = true
	coloured := p.model.screen()
	must.Contains(t, coloured, "\x1b[", "there are no colours")
	var stripped strings.Builder
	for rest := coloured; rest != ""; {
		before, behind, found := strings.Cut(rest, "\x1b[")
		stripped.WriteString(before)
		if rest = ""; found {
			_, rest, _ = strings.Cut(behind, "m")
		}
	}
	for i, line := range strings.Split(stripped.String(), "\n") {
		if want := strings.Split(plain, "\n")[i]; strings.TrimRight(line, " ") != want {
			t.Errorf("line %d: %q, without colours %q", i+1, line, want)
		}
	}
}

// A queue is empty at the pace of the last minute.
func TestQueuesGrowAndShrink(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	p := sit(t, f, false, 80, 24)
	f.waiting.Targets = map[string]api.WaitingTarget{"mail": {Count: 300}, "report": {Count: 13}}
	p.later(5)
	p.sees("300", "13", "2m34s") // 302 rows, those that are prefetched too, at 118 a minute
	p.fake.fleet.Workers[0].Value.Targets["mail"] = api.TargetStatus{Concurrency: 1}
	p.later(5)
	p.sees("0    0     0     never") // nothing ended: there is no pace
	p.fake.fleet.Workers[0].Value.Targets["mail"] = api.TargetStatus{Concurrency: 1, Ended: 60, Why: "its rate of 60/m is used up"}
	p.later(5)
	p.sees("60     0      5m0s") // the rate is what it goes by
	p.fake.fleet.Workers[0].Value.Targets["mail"] = api.TargetStatus{Concurrency: 1, Ended: 60, Why: "no process gets ready"}
	p.fake.fleet.Workers[0].Value.Executors = []api.ExecutorStatus{{Target: "mail", Unready: "no process gets ready"}}
	p.later(5)
	p.sees("60     0     never") // nobody can start what waits
}

func TestWideTextIsCutWhereItIsTooWide(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text  string
		width int
		want  string
	}{
		{"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日… "}, {"abc", 5, "abc  "}, {"abc", 2, "a…"}, {"abc", 0, ""}, {"abc", 1, "…"},
	} {
		check.Equal(t, fit(test.text, test.width), test.want, "%s in %d", test.text, test.width)
	}
}

// Who has chosen a job that ends does nothing to the one that comes in its place.
func TestAJobThatEndsLeavesNoOtherInItsPlace(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	p := sit(t, f, false, 80, 24)
	p.press("tab", "down")
	p.sees("> 4712")
	p.later(2)
	f.running.Jobs = slices.Delete(slices.Clone(f.running.Jobs), 1, 2)
	f.running.Total--
	p.later(5)
	for _, key := range []string{"x", "y"} {
		p.press(key)
	}
	if len(f.done) != 0 {
		t.Errorf("did %+v", f.done)
	}
	p.sees("what was chosen is gone, and nothing was done: choose again")
	p.press("x", "y")
	if len(f.done) != 1 || f.done[0].Job.Job != 4713 {
		t.Errorf("did %+v", f.done)
	}
}

// Targets come and go; the chosen one stays chosen, also when the filter is taken away.
func TestTheChosenTargetStaysChosen(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	p := sit(t, f, false, 80, 24)
	names := p.model.targets()
	p.press("down")
	chosen := names[1].Target
	f.fleet.Workers[0].Value.Targets["0-first"] = api.TargetStatus{Concurrency: 1}
	p.later(5)
	p.sees("> " + chosen)
	p.press("l")
	delete(f.fleet.Workers[0].Value.Targets, chosen)
	p.later(5)
	p.press("l")
	if len(f.done) != 1 || f.done[0].Target != chosen {
		t.Errorf("did %+v", f.done)
	}
}

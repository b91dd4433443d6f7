package disorder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"jobd/store/storetest/must"
)

// schedule is one case: what the site is made of, and what happens to it. Its text form is what
// a failing case prints and what a recorded one is written as: steps end at a semicolon or a line's end.
type schedule struct {
	site  map[string]string // settings of the site, see siteChoices
	steps []step
}

// step is one thing that happens: a verb of the table and its arguments.
type step struct {
	verb string
	args []string
}

func (s step) String() string { return strings.Join(append([]string{s.verb}, s.args...), " ") }

// siteChoice is a property of the site and the values that it may have, the plainest first.
type siteChoice struct {
	key    string
	values []string
}

// siteChoices are the properties in the order in which they are written.
var siteChoices = []siteChoice{
	{"workers", []string{"2", "3", "1"}},
	{"slots", []string{"2", "1", "4"}},         // of each target on each worker
	{"prefetch", []string{"one", "0", "3"}},    // one: the default, one a slot
	{"fetch", []string{"100", "2", "1"}},       // mysql_fetch_limit
	{"crash", []string{"fail", "requeue"}},     // on_crash
	{"throttle", []string{"0.1", "0", "0.5"}},  // of the master's pokes
	{"pings", []string{"30", "1"}},             // the master's
	{"stop", []string{"drain", "handover"}},    // on_stop
	{"offline", []string{"wait", "run"}},       // launch_offline
	{"spelling", []string{"as is", "shouted"}}, // rows' targets as the workers spell them, or in capitals
}

// String is the schedule in one line.
func (s schedule) String() string {
	var parts []string
	for _, choice := range siteChoices {
		if value := s.site[choice.key]; value != choice.values[0] {
			parts = append(parts, choice.key+" = "+value)
		}
	}
	for _, step := range s.steps {
		parts = append(parts, step.String())
	}
	return strings.Join(parts, "; ")
}

// parse reads the text form.
func parse(text string) (schedule, error) {
	s := schedule{site: map[string]string{}}
	for _, choice := range siteChoices {
		s.site[choice.key] = choice.values[0]
	}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		if key, value, isChoice := strings.Cut(part, "="); isChoice {
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			i := slices.IndexFunc(siteChoices, func(c siteChoice) bool { return c.key == key })
			if i < 0 || !slices.Contains(siteChoices[i].values, value) {
				return s, fmt.Errorf("schedule: the site has no %s = %s", key, value)
			}
			s.site[key] = value
			continue
		}
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		step := step{words[0], words[1:]}
		if err := step.check(); err != nil {
			return s, err
		}
		s.steps = append(s.steps, step)
	}
	return s, nil
}

// check tells whether the verb exists and its arguments are values that could be drawn.
func (s step) check() error {
	v := verbNamed(s.verb)
	if v == nil || len(s.args) != len(v.args) {
		return fmt.Errorf("schedule: %q is no step", s)
	}
	for i, arg := range s.args {
		if !slices.Contains(argValues[v.args[i]], arg) {
			return fmt.Errorf("schedule: %q: %q is no %s", s, arg, v.args[i])
		}
	}
	return nil
}

// argValues are the values that each sort of argument may have, the plainest first.
var argValues = map[string][]string{
	"worker":  {"w1", "w2", "w3"},
	"server":  {"w1", "w2", "w3", "master"},
	"target":  {"a", "b", "a", "b", "c"}, // c is served by nobody at first
	"few":     numbers(1, 6),
	"row":     numbers(0, 15), // the n-th row, counted from the newest
	"slots":   numbers(1, 4),
	"tempo":   {"quick", "short", "long"},
	"seconds": {"1", "2"},
	"ms":      {"20", "100", "300", "1000"},
	"column":  {"time_finished", "time_started", "target"},
	"errno":   {"1644", "1146", "1213", "1205", "4025"},
	"moment":  {"claim", "end", "any"},
	"mod":     numbers(1, 3),
	"rest":    numbers(0, 2),
	"nth":     numbers(1, 3),
	"commit":  {"unsent", "unanswered", "held"},
	"point": {
		"claim-selected", "accepted-appended", "commit-sent", "commit-answered", "running-appended", "running-mirrored", "start-asking",
		"start-asked", "started", "started-appended", "exit-seen", "done-appended", "forgotten", "update-sent", "done-mirrored",
		"delayed-mirrored", "planned-appended", "checkpoint", "retry-selected", "retried-appended", "retry-sent", "retry-answered",
	},
	"set": {"a", "b", "ab", "abc"}, // the targets in a configuration file
}

func numbers(from, to int) (list []string) {
	for n := from; n <= to; n++ {
		list = append(list, strconv.Itoa(n))
	}
	return list
}

// Steps of a generated schedule come in bursts, so that there are about fifteen of them: rapid prefers short lists.
const (
	mostBursts = 8
	mostSteps  = 6 // of a burst
)

// schedules generates schedules. Every step makes sense after any other: one that meets nothing
// that it could change does nothing, so that leaving steps away leaves a schedule.
func schedules() *rapid.Generator[schedule] {
	return rapid.Custom(func(t *rapid.T) schedule {
		s := schedule{site: map[string]string{}}
		for _, choice := range siteChoices {
			s.site[choice.key] = rapid.SampledFrom(choice.values).Draw(t, choice.key)
		}
		burst := rapid.SliceOfN(rapid.Custom(drawStep), 1, mostSteps)
		s.steps = slices.Concat(rapid.SliceOfN(burst, 1, mostBursts).Draw(t, "steps")...)
		return s
	})
}

// withoutVariable names verbs, with commas, that are not drawn: to look for other things while one is known.
const withoutVariable = "DISORDER_WITHOUT"

// weighted holds each verb as often as its weight says. The order is stirred since rapid
// prefers what stands at the beginning.
var weighted = sync.OnceValue(func() (list []string) {
	var inOrder []string
	without := strings.Split(os.Getenv(withoutVariable), ",")
	for _, v := range verbs {
		if slices.Contains(without, v.name) {
			continue
		}
		for range v.weight {
			inOrder = append(inOrder, v.name)
		}
	}
	const stride = 37 // a prime: it meets each place once
	for i := range inOrder {
		list = append(list, inOrder[i*stride%len(inOrder)])
	}
	if len(inOrder)%stride == 0 {
		panic("the stride divides the number of verbs")
	}
	return list
})

func drawStep(t *rapid.T) step {
	v := verbNamed(rapid.SampledFrom(weighted()).Draw(t, "verb"))
	s := step{verb: v.name}
	for _, sort := range v.args {
		s.args = append(s.args, rapid.SampledFrom(argValues[sort]).Draw(t, sort))
	}
	return s
}

// violation is a rule that did not hold.
type violation struct {
	rule string // names the rule: while shrinking only violations of the same rule count
	text string
}

// trial is one run of one schedule. It stands in for the test, towards the harness, so that what
// fails can be run again, smaller, before the test fails. Its folder stays where a rule did not hold.
type trial struct {
	testing.TB
	dir     string
	begun   time.Time
	ctx     context.Context
	cancel  context.CancelFunc
	log     *os.File
	died    int           // how often workers have killed themselves where they were to
	slowest time.Duration // the longest time at a quiet point in which nothing happened

	mu       sync.Mutex
	found    []violation
	cleanups []func()
	folders  int
}

// try runs a schedule on a server and gives what did not hold.
func try(t testing.TB, lane *lane, s schedule) *trial {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "jobd-disorder-"))(t)
	log := must.Get(os.Create(filepath.Join(dir, "trial.log")))(t)
	tr := &trial{TB: t, dir: dir, log: log, begun: time.Now()}
	tr.ctx, tr.cancel = context.WithTimeout(t.Context(), mostTime)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer tr.cleanUp()
		tr.Logf("schedule: %s", s)
		run(tr, lane, s)
	}()
	<-ended
	log.Close()
	if len(tr.found) == 0 {
		tr.remove()
	}
	return tr
}

// mostTime is how long a trial may take in all.
const mostTime = 4 * time.Minute

// remove removes what the trial left for whoever looks into a violation.
func (t *trial) remove() { _ = os.RemoveAll(t.dir) }

// verdict is the violations in words; "" where there are none.
func (t *trial) verdict() string {
	var text strings.Builder
	for _, v := range t.found {
		fmt.Fprintf(&text, "  %s: %s\n", v.rule, v.text)
	}
	return text.String()
}

// rule is the rule that was violated first.
func (t *trial) rule() string {
	if len(t.found) == 0 {
		return ""
	}
	return t.found[0].rule
}

// violated notes that a rule did not hold; the trial goes on.
func (t *trial) violated(rule, format string, args ...any) {
	v := violation{rule, fmt.Sprintf(format, args...)}
	t.Logf("VIOLATED %s: %s", v.rule, v.text)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.found = append(t.found, v)
}

// cleanUp runs all cleanups, the newest first. One that fails ends only its own goroutine.
func (t *trial) cleanUp() {
	t.cancel()
	for _, clean := range slices.Backward(t.cleanups) {
		var wait sync.WaitGroup
		wait.Go(clean)
		wait.Wait()
	}
}

// What the harness asks of a test.

func (t *trial) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

func (t *trial) TempDir() string {
	t.folders++
	dir := filepath.Join(t.dir, fmt.Sprintf("%02d", t.folders))
	must.Do(t, os.Mkdir(dir, 0o755), "make a folder")
	return dir
}

func (t *trial) Context() context.Context { return t.ctx }

func (t *trial) Helper() {}

func (t *trial) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.found) > 0
}

func (t *trial) Logf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.log, "%s +%.3f %s\n", time.Now().Format("15:04:05.000000"), time.Since(t.begun).Seconds(), fmt.Sprintf(format, args...))
}

func (t *trial) Log(args ...any)                   { t.Logf("%s", fmt.Sprintln(args...)) }
func (t *trial) Errorf(format string, args ...any) { t.violated("harness", format, args...) }
func (t *trial) Error(args ...any)                 { t.violated("harness", "%s", fmt.Sprintln(args...)) }
func (t *trial) Fail()                             { t.violated("harness", "failed") }
func (t *trial) FailNow()                          { t.Fail(); runtime.Goexit() }

func (t *trial) Fatalf(format string, args ...any) {
	t.violated("harness", format, args...)
	runtime.Goexit()
}

func (t *trial) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprintln(args...)) }

package disorder

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Variables of the environment that repeat a case.
const (
	scheduleVariable = "DISORDER_SCHEDULE" // a schedule's text, to be run instead of all others
	seedsVariable    = "DISORDER_SEEDS"    // seeds, with commas, to be run instead of all others
	timesVariable    = "DISORDER_TIMES"    // how often to run each; 1 if it is not set
)

// Schedules that were counterexamples once, in their smallest form.
func TestRecorded(t *testing.T) {
	given := os.Getenv(scheduleVariable)
	cases := recorded
	switch {
	case given != "":
		cases = []struct{ name, text string }{{"given", given}}
	case os.Getenv(seedsVariable) != "":
		t.Log("seeds were given")
		return
	}
	for _, c := range cases {
		for range times(t) {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				s := must.Get(parse(c.text))(t)
				lane := <-lanes
				defer func() { lanes <- lane }()
				tr := try(t, lane, s)
				count(tr)
				if text := tr.verdict(); text != "" {
					t.Errorf("\n%s%s", text, howToRepeat(tr, s))
				} else if strings.HasPrefix(c.name, "killed") {
					check.Equal(t, tr.died, strings.Count(c.text, "die-at"), "workers have died at points")
				}
			})
		}
	}
}

// Schedules that nobody thought of: those of some seeds that found something once, and new ones each time.
func TestGenerated(t *testing.T) {
	if os.Getenv(scheduleVariable) != "" {
		t.Log("a schedule was given")
		return
	}
	seeds, given := givenSeeds(t)
	if !given {
		seeds = fixedSeeds
		for range harness.Size(randomSeeds, 0) {
			seeds = append(seeds, rand.Uint64()>>1)
		}
	}
	for _, seed := range seeds {
		for range times(t) {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				explore(t, seed)
			})
		}
	}
	if harness.Long() && !given {
		exploreFor(t, longTime)
	}
}

const (
	randomSeeds = 6
	longTime    = 30 * time.Minute
)

// exploreFor tries new seeds until the time is over.
func exploreFor(t *testing.T, long time.Duration) {
	end := time.Now().Add(long)
	for i := range cap(lanes) {
		t.Run(fmt.Sprintf("lane=%d", i), func(t *testing.T) {
			t.Parallel()
			for n := 0; time.Now().Before(end); n++ {
				seed := rand.Uint64() >> 1
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { explore(t, seed) })
			}
		})
	}
}

// explore tries the schedule of a seed. What fails is tried again with less and less, for -rapid.shrinktime,
// as long as it violates the same rule; outcomes are remembered, since a trial need not go the same way twice.
func explore(t *testing.T, seed uint64) {
	lane := <-lanes
	defer func() { lanes <- lane }()
	var first, smallest *trial
	var least schedule
	outcomes := map[string]string{}
	checkOne(t, seed, func(r *rapid.T) {
		s := schedules().Draw(r, "schedule")
		text, known := outcomes[s.String()]
		if !known {
			tr := try(t, lane, s)
			count(tr)
			switch {
			case tr.rule() == "":
			case first == nil:
				t.Logf("\n%s%s", tr.verdict(), howToRepeat(tr, s))
				first, smallest, least, text = tr, tr, s, tr.rule()
			case tr.rule() != first.rule():
				tr.remove()
			default:
				if smallest != first {
					smallest.remove()
				}
				smallest, least, text = tr, s, tr.rule()
			}
			outcomes[s.String()] = text
		}
		must.Equal(r, text, "", "violated")
	}, func() {
		if smallest != nil {
			t.Logf("the smallest that was found, of %d:\n%s%s", len(outcomes), smallest.verdict(), howToRepeat(smallest, least))
		}
	})
}

// howToRepeat is the end of a report.
func howToRepeat(tr *trial, s schedule) string {
	return fmt.Sprintf("  logs and journals: %s\n  schedule:\n    %s\n  to repeat it: cd tests && %s='%s' go test -count=1 -v -run TestRecorded ./disorder",
		tr.dir, strings.ReplaceAll(s.String(), "; ", "\n    "), scheduleVariable, s)
}

// settingSeed is held from setting rapid's flags, which are the process's, until they are read.
var settingSeed sync.Mutex

// checkOne has rapid check one schedule, that of a seed, and calls after when it has shrunk it.
func checkOne(t *testing.T, seed uint64, property func(*rapid.T), after func()) {
	defer after()
	settingSeed.Lock()
	var unlock sync.Once
	for name, value := range map[string]string{"rapid.seed": strconv.FormatUint(seed, 10), "rapid.checks": "1", "rapid.nofailfile": "true"} {
		must.Do(t, flag.Set(name, value))
	}
	t.Logf("to repeat it: cd tests && %s=%d go test -count=1 -v -run TestGenerated ./disorder", seedsVariable, seed)
	rapid.Check(t, func(r *rapid.T) {
		unlock.Do(settingSeed.Unlock)
		property(r)
	})
}

// givenSeeds are those of the environment, or of -rapid.seed.
var givenSeeds = func(t *testing.T) (seeds []uint64, given bool) {
	text := os.Getenv(seedsVariable)
	if text == "" {
		return nil, false
	}
	for word := range strings.SplitSeq(text, ",") {
		seed, err := strconv.ParseUint(strings.TrimSpace(word), 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedsVariable, err)
		}
		seeds = append(seeds, seed)
	}
	return seeds, true
}

func times(t *testing.T) int {
	text := os.Getenv(timesVariable)
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", timesVariable, err)
	}
	return n
}

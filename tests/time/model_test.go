package time

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// step is one thing that happens in a trial. Each makes sense after any other: one that meets nothing
// that it could change does nothing, so that leaving steps away leaves a trial.
type step struct {
	verb   string
	number int // of a row, counted from the newest; of a sort; of tenths of a second
	worker int
}

func (s step) String() string { return fmt.Sprintf("%s %d w%d", s.verb, s.number, s.worker+1) }

// verbs are what may happen, each as often as its weight says.
var verbs = []struct {
	name   string
	weight int
	do     func(*trial, step)
}{
	{"insert", 8, (*trial).insertRow},
	{"rest", 5, (*trial).rest},
	{"poll", 2, (*trial).poll},
	{"due now", 1, (*trial).editDue},
	{"reschedule", 2, (*trial).editSchedule},
	{"lock", 2, (*trial).lock},
	{"retry", 2, (*trial).retry},
	{"cancel", 1, (*trial).cancelRow},
	{"run now", 2, (*trial).runNow},
	{"signal", 1, (*trial).signalRow},
	{"kill", 2, (*trial).kill},
	{"crash", 1, (*trial).crash},
	{"kill runner", 1, (*trial).killRunner},
	{"start", 2, (*trial).start},
}

// steps generates trials.
func steps() *rapid.Generator[[]step] {
	var names []string
	for _, v := range verbs {
		for range v.weight {
			names = append(names, v.name)
		}
	}
	one := rapid.Custom(func(r *rapid.T) step {
		return step{
			rapid.SampledFrom(names).Draw(r, "verb"), rapid.IntRange(0, 15).Draw(r, "number"), rapid.IntRange(0, 1).Draw(r, "worker"),
		}
	})
	return rapid.SliceOfN(one, 25, 60)
}

// Rows of all sorts, two workers that are killed now and then, people who edit and lock rows, and an
// operator who retries, cancels and runs them now: nothing is lost, nothing is run twice or before its time,
// attempts keep to their limits, and every schedule goes on.
func TestModel(t *testing.T) {
	for name, value := range map[string]string{
		"rapid.checks": fmt.Sprint(size(2, 100)), "rapid.nofailfile": "true", "rapid.shrinktime": size("1m", "5m"),
	} {
		if name == "rapid.checks" && flagGiven(name) {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	outcomes := map[string]string{} // a trial need not go the same way twice
	rapid.Check(t, func(r *rapid.T) {
		drawn := steps().Draw(r, "steps")
		text := fmt.Sprint(drawn)
		wrong, known := outcomes[text]
		if !known {
			wrong = try(t, drawn)
			outcomes[text] = wrong
		}
		if wrong != "" {
			rule, _, _ := strings.Cut(wrong, ":")
			r.Logf("%s", wrong)
			r.Fatalf("violated: %s", rule)
		}
	})
}

func flagGiven(name string) (given bool) {
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

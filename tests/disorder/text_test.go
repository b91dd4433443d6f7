package disorder

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/store/storetest/must"
)

// What is printed of a schedule is what is read again, and no step is ever taken for another.
func TestSchedulesAreText(t *testing.T) {
	t.Parallel()
	verbsSeen := map[string]bool{}
	for seed := range 500 {
		drawn := schedules().Example(seed)
		again := must.Get(parse(drawn.String()))(t)
		if again.String() != drawn.String() || !cmp.Equal(again.site, drawn.site) || len(again.steps) != len(drawn.steps) {
			t.Fatalf("%s\nbecame\n%s", drawn, again)
		}
		for _, step := range drawn.steps {
			verbsSeen[step.verb] = true
		}
	}
	for _, v := range verbs {
		if !verbsSeen[v.name] {
			t.Errorf("no schedule has the step %s", v.name)
		}
	}
	for _, wrong := range []string{"nothing", "insert a 3", "insert a 3 quick quick", "insert z 3 quick", "workers = 9", "slots w1 a 0"} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("%q is taken for a schedule", wrong)
		}
	}
}

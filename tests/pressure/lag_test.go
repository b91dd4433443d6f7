package pressure

import (
	"fmt"
	"testing"

	"jobd/tests/harness"
)

// A table that takes ends more slowly than claims holds up the claims: they start their jobs themselves, and would
// overtake the mirror for ever.
func TestSlowTableHoldsUpClaims(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []int{0, 3} {
		t.Run(fmt.Sprint("prefetch = ", prefetch), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.InsertMany(t, backlog, "a", "waiting")
			s.Exec(t, "UPDATE jobs SET target = 'b' WHERE id % 2 = 0")
			s.Exec(t, "CREATE TRIGGER slow BEFORE UPDATE ON jobs FOR EACH ROW BEGIN IF NEW.status = 'done' THEN DO SLEEP(0.02); END IF; END")
			s.start("lags", "/bin/true {id}", map[string]int{"a": 4, "b": 2}, harness.Settings{"prefetch": fmt.Sprint(prefetch)})
			s.awaitAtMost(60, slots+2*prefetch+slots)
		})
	}
}

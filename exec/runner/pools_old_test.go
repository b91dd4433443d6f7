package runner

import (
	"fmt"
	"testing"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
)

// A runner of an earlier version does not say whether it has taken up a wish that processes be replaced:
// then nobody can tell which are old, and nobody waits for that.
func TestARunnerThatDoesNotTellWhatIsOld(t *testing.T) {
	t.Parallel()
	r := &Remote{}
	c := &r.connector
	c.pools.want([]jobexec.Pool{{Target: "mail", Mode: jobexec.ModePool}})
	c.recycle([]string{"mail"}, "recycle")
	old := func() string {
		if n := r.Standings()[0].Old; n != nil {
			return fmt.Sprint(*n)
		}
		return "unknown"
	}
	wished := c.pools.wishes[keyOf("mail", jobexec.ModePool)].id
	none := int64(0)
	for _, said := range []struct {
		standing wire.Standing
		want     string
	}{
		{wire.Standing{Processes: 2, Wish: &none}, "2"}, // it has not heard of it yet
		{wire.Standing{Processes: 2}, "unknown"},
		{wire.Standing{Processes: 2, Era: 1}, "unknown"},
		{wire.Standing{Processes: 2, Wish: &wished, Old: 1}, "1"},
		{wire.Standing{Processes: 2, Wish: &wished}, "0"},
	} {
		said.standing.Target, said.standing.Mode = "mail", string(jobexec.ModePool)
		c.heard([]wire.Message{{Standings: []wire.Standing{said.standing}}})
		if got := old(); got != said.want {
			t.Errorf("%+v: %s are old, want %s", said.standing, got, said.want)
		}
	}
}

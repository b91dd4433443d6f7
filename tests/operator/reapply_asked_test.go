package operator

import (
	"testing"

	"jobd/tests/harness"
)

// Before rows are brought back a person sees which, and is asked; without a yes nothing is changed.
func TestAPersonIsShownWhatReapplyWouldDo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.run(t, "a", 1, 2)
	if answer := harness.Dial(t, s.master.Addr).Ask(t, "pause", map[string]any{"targets": []string{"a"}}); answer.Error != "" { // else the row that waits may be claimed
		t.Fatal(answer.Error)
	}
	s.db.Exec(t, "UPDATE jobs SET status = 'waiting', time_started = 0, time_finished = 0, result = NULL, return_code = NULL WHERE id = 1")
	ask := func() *terminal {
		term := openTerminal(t, s.master, 120, 24, "--master", "journal", "reapply")
		term.await("would apply", "1 rows would be brought to what the journals say. Go on? [y/N]")
		return term
	}
	term := ask()
	term.press("n", "Enter")
	term.await("nothing was changed\nexit code 1\n")
	if n := s.db.Count(t, "status = 'waiting'"); n != 1 {
		t.Errorf("%d rows wait", n)
	}
	term = ask()
	term.press("y", "Enter")
	term.await("applied", "exit code 0\n")
	s.db.AwaitCount(t, 2, "status = 'done' AND result = 'ok'")
	if s.starts(t, 1) != 1 {
		t.Errorf("it was started %d times", s.starts(t, 1))
	}
}

package operator

import "testing"

// Before many jobs are run once more a person is asked, and only a yes is one.
func TestAPersonIsAskedBeforeARetry(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fails(t, 1, 3)
	s.fails(t, 2, 75)
	s.run(t, "a", 1, 2)
	s.mended(t, 1)
	s.mended(t, 2)
	const question = "2 jobs that failed since"
	ask := func() *terminal {
		term := openTerminal(t, s.master, 120, 24, "--master", "retry", "--failed")
		term.await(question, "(a 2) would be run once more. Go on? [y/N]")
		return term
	}
	for _, no := range []struct {
		keys  []string
		shown string
	}{
		{[]string{"n", "Enter"}, "nothing was changed\nexit code 1\n"},
		{[]string{"Enter"}, "nothing was changed\nexit code 1\n"},
		{[]string{"x", "y", "Enter"}, "nothing was changed\nexit code 1\n"},
		{[]string{"C-d"}, "nothing was changed\nexit code 1\n"},
		{[]string{"C-c"}, "interrupted\nexit code 130\n"},
		{[]string{"y", "C-c"}, "interrupted\nexit code 130\n"},
	} {
		term := ask()
		term.press(no.keys...)
		term.await(no.shown)
		if n := s.db.Count(t, "status = 'done' AND result = 'fail'"); n != 2 {
			t.Errorf("%q: %d rows are as they were", no.keys, n)
		}
	}
	if got := s.jobctl(t, "journal log --kind retried --output json"); got.code != 0 || got.stdout != "" {
		t.Errorf("the journal: %+v", got)
	}

	term := ask()
	term.press("y", "Enter")
	term.awaitTimes(2, "waiting", "exit code 0\n")
	s.db.AwaitCount(t, 2, "status = 'done' AND result = 'ok'")
	if s.starts(t, 1) != 2 || s.starts(t, 2) != 2 {
		t.Errorf("starts: %d %d", s.starts(t, 1), s.starts(t, 2))
	}
}

package lifecycle

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner"
	"jobd/journal"
	"jobd/tests/harness"
)

// The runner that a worker of the former version has left is asked for starts by one of this: it
// knows no tokens and no limits. Jobs end with their own outcomes, limits hold, and the next worker
// goes on with both.
func TestAFormerRunnerServesTokensAndLimits(t *testing.T) {
	t.Parallel()
	config := runner.Config{
		Dir: t.TempDir(), Path: buildFormer(t, beforeTokens), Command: []string{"jobd", "runner"}, Logger: slog.New(slog.DiscardHandler),
	}
	remote := openRunner(t, config)
	start := func(token, text string, timeout, kill time.Duration) jobexec.Process {
		t.Helper()
		instance, err := remote.Instance()
		if err != nil {
			t.Fatal(err)
		}
		p, err := remote.Start(jobexec.Spec{
			Job: 1, Token: token, Attempt: 1, Runner: instance, MaxOutput: 1000, Argv: []string{"/bin/sh", "-c", text},
			Env: os.Environ(), Timeout: timeout, KillAfter: kill,
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := outcomeOf(t, start("@first2345", "trap 'echo first; exit 0' TERM; sleep 300 & wait", 4*time.Second, time.Hour))
	if first.Result != "fail" || first.Timeout != 4 || first.Code == nil || *first.Code != 0 || string(first.Stdout.Kept) != "first\n" {
		t.Errorf("the first claim's start ended with %+v", first)
	}
	remote.Forget(1, "@first2345", 1)
	second := start("@second234", "trap '' TERM; exec sleep 300", 6*time.Second, 100*time.Millisecond)
	await(t, "start", second.Begun())
	process := second.Started()
	if err := remote.Close(); err != nil {
		t.Fatal(err)
	}

	next := openRunner(t, config)
	recalled := next.Recall([]jobexec.Spec{{
		Job: 1, Token: "@second234", Attempt: 1, Timeout: 6 * time.Second, KillAfter: 100 * time.Millisecond,
	}})
	if len(recalled) != 1 || recalled[0].Token != "@second234" || recalled[0].Process.Started() != process {
		t.Fatalf("recalled are %+v", recalled)
	}
	done := outcomeOf(t, recalled[0].Process)
	if done.Signal != "SIGKILL" || done.Timeout != 6 || !strings.Contains(done.Note, "timeout of 6s, with SIGTERM and, 100ms later, SIGKILL") {
		t.Errorf("the second claim's start ended with %+v", done)
	}
	next.Forget(1, "@second234", 1)
}

// await waits for a process's start or end.
func await(t *testing.T, what string, came <-chan struct{}) {
	t.Helper()
	select {
	case <-came:
	case <-time.After(harness.Patience):
		t.Fatalf("waited %s: no %s of the process", harness.Patience, what)
	}
}

func openRunner(t *testing.T, config runner.Config) *runner.Remote {
	t.Helper()
	remote, err := runner.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = remote.Close() }) // it may be closed by now
	return remote
}

func outcomeOf(t *testing.T, p jobexec.Process) journal.Done {
	t.Helper()
	await(t, "end", p.Ended())
	done, err := p.Outcome()
	if err != nil {
		t.Errorf("how it ended is not known: %v", err)
	}
	return done
}

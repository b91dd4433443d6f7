package runner

import (
	"net"
	"path/filepath"
	"reflect"
	"testing"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// What workers and runners of former versions said to each other was recorded from the programs
// themselves, one folder for each version that said something new. In each there are two
// sessions: a worker that leaves a job running, and the next one, which comes for it.
var dialects = []string{"version-2", "elapsed", "classes", "peeks", "tokens"}

func dialect(t *testing.T, name string) (sessions [2][]line) {
	t.Helper()
	for i, session := range []string{"first-worker", "next-worker"} {
		sessions[i] = recording(t, filepath.Join("..", "..", "testdata", "compat", "runner", name, session+".txt"))
		if len(sessions[i]) < 5 {
			t.Fatalf("%s, %s: only %d messages", name, session, len(sessions[i]))
		}
	}
	return sessions
}

// No byte of a recorded message is lost in reading it and writing it again.
func TestMessagesAreThoseOfAllDialects(t *testing.T) {
	t.Parallel()
	for _, name := range dialects {
		for _, lines := range dialect(t, name) {
			for _, l := range lines {
				sameBytes(t, name, l)
			}
		}
	}
}

// Workers of all dialects, with the runner of this version: they get the answers that their own
// runner gave.
func TestWorkersOfAllDialectsAreServed(t *testing.T) {
	t.Parallel()
	for _, name := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := workerConfig(t.TempDir())
			for _, lines := range dialect(t, name) {
				speak(t, &config, lines)
			}
		})
	}
}

// speak sends a runner of this version what a worker sent, and compares its answers. When a process
// was told of as started is left out: that depends on how quick the machine was.
func speak(t *testing.T, config *Config, lines []line) {
	t.Helper()
	conn, err := config.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := wire.NewReader(conn)
	for _, l := range lines {
		if l.side == "worker" {
			if _, err := conn.Write(l.bytes); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want := decoded(t, l.bytes)
		if want.Kind == wire.Started {
			continue
		}
		got, err := in.Next()
		for err == nil && got.Kind == wire.Started {
			got, err = in.Next()
		}
		if err != nil {
			t.Fatalf("instead of %+v: %v", want, err)
		}
		if masked(got) != masked(want) {
			t.Errorf("the answer is\n%s, it was\n%s", masked(got), masked(want))
		}
	}
}

// Runners of all dialects, with a worker of this version: behind its hello it sends what a worker
// of theirs sent, byte for byte, and learns what their jobs came to.
func TestRunnersOfAllDialectsAreUnderstood(t *testing.T) {
	t.Parallel()
	for _, name := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := workerConfig(t.TempDir())
			config.Path = "/none" // there is to be no runner but the recorded one
			listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(config.Dir, wire.SocketFile)})
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			for _, lines := range dialect(t, name) {
				played := make(chan error, 1)
				go func() { played <- playRunner(listener, lines) }()
				remote, err := Open(config)
				if err != nil {
					t.Fatalf("%v, %v", err, <-played)
				}
				repeat(t, remote, lines)
				if err := remote.Close(); err != nil {
					t.Error(err)
				}
				if err := <-played; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// repeat does what the worker of a recorded session did.
func repeat(t *testing.T, remote *Remote, lines []line) {
	t.Helper()
	jobs, ends := recordedJobs(t, lines)
	processes := map[int64]jobexec.Process{}
	for _, r := range remote.Recall(jobs) {
		processes[r.Job] = r.Process
	}
	if len(processes) != len(jobs) {
		t.Errorf("%d jobs are recalled of %+v", len(processes), jobs)
	}
	var env []string
	for _, l := range lines[1:] {
		if l.side != "worker" {
			continue
		}
		m := decoded(t, l.bytes)
		process := processes[m.ID.Job]
		switch m.Kind {
		case wire.Environment:
			env = m.Env
		case wire.Start:
			processes[m.ID.Job] = asked(t, remote, jobexec.Spec{
				Job: m.ID.Job, Token: tokenOf(m.ID), Attempt: m.ID.Attempt,
				Argv: m.Argv, Dir: m.Dir, Env: env, MaxOutput: m.MaxOutput,
			})
		case wire.Signal:
			<-process.Begun()
			if err := process.Signal(m.Signo); err != nil {
				t.Errorf("signal to job %d: %v", m.ID.Job, err)
			}
		case wire.Forget:
			done, err := wait(process)
			if want := ends[m.ID.Job]; err != nil || !reflect.DeepEqual(done, want) {
				t.Errorf("job %d ended with %+v, want %+v: %v", m.ID.Job, done, want, err)
			}
			remote.Forget(m.ID.Job, tokenOf(m.ID), m.ID.Attempt)
		}
	}
}

// recordedJobs is the jobs that a recorded runner had of the worker before, and how each of its
// jobs ended.
func recordedJobs(t *testing.T, lines []line) (had []jobexec.Spec, ends map[int64]journal.Done) {
	t.Helper()
	ends = map[int64]journal.Done{}
	for _, l := range lines {
		switch m := decoded(t, l.bytes); {
		case l.side == "runner" && m.Kind == wire.Hello:
			for _, j := range m.Jobs {
				if !j.IsWord() {
					had = append(had, jobexec.Spec{Job: j.ID.Job, Token: tokenOf(j.ID), Attempt: j.ID.Attempt})
				}
			}
		case m.Kind == wire.Ended && !m.Later, m.Kind == wire.Output:
			ends[m.ID.Job] = m.Done
		}
	}
	return had, ends
}

// tokenOf is the token by which the worker of this version knows a start. Not all dialects have
// them.
func tokenOf(id wire.ID) string {
	if id.Token == "" {
		return claimToken
	}
	return id.Token
}

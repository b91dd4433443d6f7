package lifecycle

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// restartable is a worker with a job that runs, its binary and its settings.
type restartable struct {
	*harness.Daemon
	binary   string
	settings harness.Settings
	db       *harness.Database
	launcher gated
}

func newRestartable(t *testing.T) restartable {
	t.Helper()
	r := restartable{binary: installed(t), db: harness.NewDatabase(t), launcher: newGated(t)}
	r.settings = r.db.Worker(t, "worker", r.launcher.command, map[string]int{"a": 1})
	r.Daemon = harness.LaunchBinary(t, r.binary, r.settings.Write(t), r.settings.Addr()).Ready(t)
	r.db.InsertMany(t, 1, "a", "waiting")
	harness.Dial(t, r.Addr).Ask(t, "poll", nil)
	r.launcher.awaitStarts(t, 1)
	return r
}

// configure writes the worker's file anew.
func (r restartable) configure(t *testing.T, settings harness.Settings) {
	t.Helper()
	must.Do(t, os.WriteFile(r.Config, []byte(settings.String()), 0o600))
}

func (r restartable) install(t *testing.T, script string) {
	t.Helper()
	broken := filepath.Join(t.TempDir(), "script")
	must.Do(t, os.WriteFile(broken, []byte(script), 0o755))
	replace(t, r.binary, broken)
}

func (r restartable) restart(t *testing.T) (code int, output string) {
	t.Helper()
	cmd := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), ctlFlags(r.Daemon, "restart")...)
	out, _ := cmd.CombinedOutput() // the code tells
	return cmd.ProcessState.ExitCode(), string(out)
}

// started is when the process began, as it tells itself.
func started(t *testing.T, addr string) (ms int64) {
	t.Helper()
	var status struct{ StartedAt int64 }
	client := harness.Dial(t, addr)
	defer client.Close()
	client.Ask(t, "status", nil).Decode(t, &status)
	return status.StartedAt
}

// Where the next start would end, a restart is refused with the reason, and the worker goes on.
func TestRestartIsRefusedWhereAStartWouldEnd(t *testing.T) {
	t.Parallel()
	other := harness.FreePort(t)
	taken := harness.StartMaster(t, harness.Settings{"port": other})
	tests := map[string]struct {
		spoil func(t *testing.T, r restartable)
		want  []string
	}{
		"a wrong value": {func(t *testing.T, r restartable) {
			r.configure(t, r.settings.With(harness.Targets(map[string]int{"a": 0})))
		}, []string{"jobd.conf:", "targets.a", "at least 1"}},
		"no configuration": {func(t *testing.T, r restartable) {
			must.Do(t, os.Remove(r.Config))
		}, []string{"jobd.conf", "no such file"}},
		"a launcher that is missing": {func(t *testing.T, r restartable) {
			r.configure(t, r.settings.With(harness.Settings{"launcher": "/nowhere/launcher {id}"}))
		}, []string{"launcher", "/nowhere/launcher"}},
		"an address that is taken": {func(t *testing.T, r restartable) {
			r.configure(t, r.settings.With(harness.Settings{"port": other}))
		}, []string{"address " + taken.Addr, "in use"}},
		"another journal": {func(t *testing.T, r restartable) {
			r.configure(t, r.settings.With(harness.Settings{"journal_dir": t.TempDir()}))
		}, []string{"journal", "another one"}},
		"an account that is refused": {func(t *testing.T, r restartable) {
			r.configure(t, r.settings.With(harness.Settings{"mysql_password": "geheim"}))
		}, []string{"ccess denied"}},
		"an older version": {func(t *testing.T, r restartable) {
			r.install(t, "#!/bin/sh\necho 'jobd: unknown flag --check' >&2\nexit 2\n")
		}, []string{"is no report of jobd", "older version"}},
		"another program": {func(t *testing.T, r restartable) {
			r.install(t, "#!/bin/sh\necho hello\n")
		}, []string{"it is no jobd"}},
		"the master": {func(t *testing.T, r restartable) {
			replace(t, r.binary, harness.Program(t, "jobd-master"))
		}, []string{"it is no jobd"}},
		"a script without its interpreter": {func(t *testing.T, r restartable) {
			r.install(t, "#!/nowhere/sh\necho hello\n")
		}, []string{"not restarted", "no such file or directory"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRestartable(t)
			before := started(t, r.Addr)
			test.spoil(t, r)
			code, output := r.restart(t)
			if code != 1 {
				t.Errorf("jobctl restart: exit code %d, want 1", code)
			}
			for _, want := range append(test.want, "not restarted: ") {
				if !strings.Contains(output, want) {
					t.Errorf("jobctl restart says\n%s\nwithout %q", output, want)
				}
			}
			if strings.Contains(output, "geheim") {
				t.Errorf("it tells a password: %s", output)
			}
			if after := started(t, r.Addr); after != before {
				t.Error("it has started again all the same")
			}
			r.launcher.open(t)
			r.db.AwaitCount(t, 1, "status = 'done' AND result = 'ok'")
		})
	}
}

// jobctl is answered when the new process serves, wherever that listens.
func TestRestartIsAnsweredByTheNewProcess(t *testing.T) {
	t.Parallel()
	for name, port := range map[string]string{"there": "", "elsewhere": harness.FreePort(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRestartable(t)
			before, addr := started(t, r.Addr), r.Addr
			if port != "" {
				addr = "127.0.0.1:" + port
				r.configure(t, r.settings.With(harness.Settings{"port": port}))
			}
			code, output := r.restart(t)
			if code != 0 || !strings.Contains(output, fmt.Sprintf("ok: process %d serves again", r.Pid)) || !strings.Contains(output, addr) {
				t.Errorf("jobctl restart: exit code %d: %s", code, output)
			}
			if after := started(t, addr); after <= before {
				t.Errorf("what serves at %s was started at %d, as before", addr, after)
			}
			r.launcher.open(t)
			r.db.AwaitCount(t, 1, "status = 'done' AND result = 'ok'")
			expectOnce(t, r.launcher, 1)
		})
	}
}

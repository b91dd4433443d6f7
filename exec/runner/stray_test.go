package runner

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// startChild starts a process in a group of its own, as runners do. ended waits for its end.
func startChild(t *testing.T, text string) (started journal.Started, ended func() *exec.ExitError) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", text)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // it may just have ended
			_ = cmd.Wait()
		}
	})
	bootID := must.Get(proc.BootID())(t)
	started = journal.Started{Pid: cmd.Process.Pid, StartTime: proc.StartTime(cmd.Process.Pid), BootID: bootID}
	return started, func() (exit *exec.ExitError) {
		errors.As(cmd.Wait(), &exit)
		return exit
	}
}

// adopt has a worker take up a process of a former runner's, with its limit.
func adopt(t *testing.T, started journal.Started, limit wire.Limit) (p jobexec.Process, alive bool) {
	t.Helper()
	bootID := must.Get(proc.BootID())(t)
	r := &Remote{bootID: bootID, config: Config{Dir: t.TempDir()}}
	return r.Adopt(jobexec.Spec{Timeout: limit.Timeout, KillAfter: limit.Kill}, started)
}

func TestAdoptFindsAProcessAgain(t *testing.T) {
	t.Parallel()
	started, _ := startChild(t, "exec sleep 300")
	if started.Pid <= 0 || started.StartTime == 0 || started.BootID == "" {
		t.Errorf("process %+v", started)
	}
	other := started
	other.StartTime++
	if _, alive := adopt(t, other, wire.Limit{}); alive {
		t.Error("pitfall 29: another process with the same id was taken for the job's")
	}
	other = started
	other.BootID = "another boot"
	if _, alive := adopt(t, other, wire.Limit{}); alive {
		t.Error("pitfall 29: a process of another boot was taken for the job's")
	}
	gone, ended := startChild(t, "true")
	ended()
	if _, alive := adopt(t, gone, wire.Limit{}); alive {
		t.Error("a process that is gone was adopted")
	}
}

func TestAnAdoptedProcessIsSignalledAndWaitedFor(t *testing.T) {
	t.Parallel()
	started, ended := startChild(t, "exec sleep 300")
	adopted, alive := adopt(t, started, wire.Limit{})
	if !alive {
		t.Fatal("a process that runs was not adopted")
	}
	if err := adopted.Signal(15); err != nil {
		t.Errorf("signal: %v", err)
	}
	if _, err := wait(adopted); !errors.Is(err, jobexec.ErrOutcomeUnknown) {
		t.Error("the outcome of somebody else's child can't be known")
	}
	if err := adopted.Signal(0); err == nil {
		t.Error("a process that is gone was signalled")
	}
	if exit := ended(); exit == nil || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", exit)
	}
}

func TestHowLongAnAdoptedProcessRanIsKnown(t *testing.T) {
	t.Parallel()
	since := proc.Uptime()
	started, ended := startChild(t, "sleep 2")
	adopted, alive := adopt(t, started, wire.Limit{})
	if !alive {
		t.Fatal("a process that runs was not adopted")
	}
	done, _ := wait(adopted)
	ranFor(t, "the adopted process", done, 2*time.Second, since)
	ended()
}

package runner

import (
	"errors"
	"testing"

	jobexec "jobd/exec"
)

func TestAdoptFindsAProcessAgain(t *testing.T) {
	t.Parallel()
	local := newLocal(t)
	p := start(t, local, script("exec sleep 300"))
	defer func() {
		if err := p.Signal(9); err != nil {
			t.Error(err)
		}
		wait(p)
	}()
	if got := p.Started(); got.Pid <= 0 || got.StartTime == 0 || got.BootID == "" {
		t.Errorf("process %+v", got)
	}
	other := p.Started()
	other.StartTime++
	if _, alive := adopt(other, local.bootID); alive {
		t.Error("pitfall 29: another process with the same id was taken for the job's")
	}
	other = p.Started()
	other.BootID = "another boot"
	if _, alive := adopt(other, local.bootID); alive {
		t.Error("pitfall 29: a process of another boot was taken for the job's")
	}
	gone := start(t, local, script("true"))
	wait(gone)
	if _, alive := adopt(gone.Started(), local.bootID); alive {
		t.Error("a process that is gone was adopted")
	}
}

func TestAnAdoptedProcessIsSignalledAndWaitedFor(t *testing.T) {
	t.Parallel()
	local := newLocal(t)
	p := start(t, local, script("exec sleep 300"))
	adopted, alive := adopt(p.Started(), local.bootID)
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
	if done, _ := wait(p); done.Signal != "SIGTERM" {
		t.Errorf("done %+v", done)
	}
}

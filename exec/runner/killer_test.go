package runner

import "testing"

func TestWhoKilledAJob(t *testing.T) {
	t.Parallel()
	local := newLocal(t)
	if done := run(t, local, script("echo out >&2; kill -KILL $$")); done.Note != "killed by a SIGKILL that was not jobd's" {
		t.Errorf("killed by somebody: %+v", done)
	} else if got, want := done.ShownStderr().Text(0, 0), "out\n[jobd: killed by a SIGKILL that was not jobd's]\n"; got != want {
		t.Errorf("stderr is shown as %q, want %q", got, want)
	}
	ours := start(t, local, script("exec sleep 300"))
	if err := ours.Signal(9); err != nil {
		t.Fatal(err)
	}
	if done, _ := wait(ours); done.Signal != "SIGKILL" || done.Note != "" {
		t.Errorf("killed by jobd: %+v", done)
	}
	if got, want := local.killer(oomKills()-1), "killed, probably by the kernel: it has run out of memory meanwhile"; got != want {
		t.Errorf("killed for want of memory: %q, want %q", got, want)
	}
}

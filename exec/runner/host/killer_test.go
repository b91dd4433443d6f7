package host

import "testing"

func TestWhoKilledAJob(t *testing.T) {
	t.Parallel()
	local := newTestLocal(t)
	if done := run(t, local, script("echo out >&2; kill -KILL $$")); done.Note != "killed by a SIGKILL that was not jobd's" {
		t.Errorf("killed by somebody: %+v", done)
	} else if got, want := done.ShownStderr().Text(0, 0), "out\n[jobd: killed by a SIGKILL that was not jobd's]\n"; got != want {
		t.Errorf("stderr is shown as %q, want %q", got, want)
	}
	ours := launch(t, local, script("exec sleep 300"))
	if err := ours.signal(9); err != nil {
		t.Fatal(err)
	}
	if done := ours.wait(); done.Signal != "SIGKILL" || done.Note != "" {
		t.Errorf("killed by jobd: %+v", done)
	}
}

package lifecycle

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// The commits of former versions: before the runner became packages of its own, and before it knew
// tokens and limits.
const (
	beforePackages = "f2dd6bc"
	beforeTokens   = "32ff79a"
)

// A worker that is replaced by one of another version, newer or older, hands its running jobs over:
// they end with their true exit codes and all of their output, whichever version their runner is
// of.
func TestHandoverBetweenVersions(t *testing.T) {
	t.Parallel()
	packages, tokens := buildFormer(t, beforePackages), buildFormer(t, beforeTokens)
	current := harness.Program(t, "jobd")
	for name, versions := range map[string][2]string{
		"upgrade": {packages, current}, "downgrade": {current, packages},
		"upgrade to tokens": {tokens, current}, "downgrade from tokens": {current, tokens},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := harness.NewDatabase(t)
			launcher := newGated(t)
			launcher.then(t, `echo "err $1" >&2; exit "$1"`)
			settings := db.Worker(t, "worker", launcher.command, map[string]int{"a": 2}).
				With(harness.Settings{"prefetch": "2"}, handover)
			config := settings.Write(t)
			worker := harness.LaunchBinary(t, versions[0], config, settings.Addr()).Ready(t)
			db.InsertMany(t, 4, "a", "waiting")
			harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
			launcher.awaitStarts(t, 2)
			db.AwaitCount(t, 2, "status = 'running'")
			runner := worker.Runner(t)
			worker.Signal(t, syscall.SIGTERM)
			if code := worker.ExitCode(t); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			harness.LaunchBinary(t, versions[1], config, settings.Addr()).Ready(t)
			if err := syscall.Kill(runner, 0); err != nil {
				t.Errorf("the runner of the worker before is gone: %v", err)
			}
			launcher.open(t)
			db.AwaitCount(t, 4, "status = 'done' AND result = 'fail' AND return_code = id AND sig IS NULL"+
				" AND stdout = CONCAT('out ', id, '\n') AND stderr = CONCAT('err ', id, '\n')")
			expectOnce(t, launcher, 4)
			verifyJournal(t, settings)
		})
	}
}

// buildFormer builds the worker of a former version.
func buildFormer(t *testing.T, formerVersion string) string {
	t.Helper()
	tree := exec.Command("git", "-C", harness.Top(), "archive", formerVersion)
	var archive, problem bytes.Buffer
	tree.Stdout, tree.Stderr = &archive, &problem
	if err := tree.Run(); err != nil {
		t.Skipf("the former version, %s, is not in this checkout's history: %v: %s", formerVersion, err, &problem)
	}
	dir := t.TempDir()
	unpack := exec.Command("tar", "-x", "-C", dir)
	unpack.Stdin = &archive
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v: %s", formerVersion, err, out)
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-o", "jobd", "./cmd/jobd")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOPROXY=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", formerVersion, err, out)
	}
	return filepath.Join(dir, "jobd")
}

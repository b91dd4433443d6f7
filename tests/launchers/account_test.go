package launchers_test

import (
	"os"
	"path/filepath"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// The shipped loops run jobs of another account, as docs/executors.md has it in the place of sudo.
func TestKeptProcessesOfAnotherAccount(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root changes to another account")
	}
	folder, err := os.MkdirTemp("", "jobd-account-") // that the account may read
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	must.Do(t, os.Chmod(folder, 0o755))
	const php = `echo posix_getpwuid(posix_geteuid())['name'], "\n";`
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "node-1", "true {id}", map[string]int{"fork": 1, "pool": 1})
	for target, body := range map[string]string{"fork": php, "pool": php} {
		l := named(t, target+".php")
		source := must.Get(os.ReadFile(l.with(t, body)))(t)
		path := filepath.Join(folder, l.file)
		must.Do(t, os.WriteFile(path, source, 0o644))
		settings = settings.With(harness.Terms(target, harness.Settings{
			"launcher": l.interpreter + " " + path, "launcher_mode": target, "launcher.user": "nobody", "launcher.cwd": folder,
		}))
	}
	worker := settings.StartWorker(t)
	targets := []string{"fork", "pool"}
	for i, target := range targets {
		db.Insert(t, int64(i+1), target, "waiting")
	}
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	for i, target := range targets {
		row := db.AwaitDone(t, int64(i+1))
		if result, out := harness.Text(row.Result), harness.Text(row.Stdout); result != "ok" || out != "nobody\n" {
			t.Errorf("%s: %s, output %q, stderr %q", target, result, out, harness.Text(row.Stderr))
		}
	}
}

package launchers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// setpriv is what docs/executors.md has for jobs of another account.
const setpriv = "setpriv --reuid=app --regid=app --init-groups "

// What the page has in the place of sudo leaves the descriptors open: jobs of all kept modes run, by
// the other account.
func TestKeptProcessesOfAnotherAccount(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root changes to another account")
	}
	page, err := os.ReadFile(filepath.Join(harness.Top(), "docs", "executors.md"))
	if err != nil || !strings.Contains(string(page), "`"+setpriv+"php") {
		t.Fatalf("the page has no %q (%v)", setpriv, err)
	}
	change := strings.NewReplacer("reuid=app", "reuid=nobody", "regid=app", "regid=nogroup").Replace(setpriv)
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
			"launcher": change + l.interpreter + " " + path, "launcher_mode": target,
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

package launchers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// How many classes the application has, as one on a framework does.
const classes = 200

// framework makes an application in PHP: an autoloader, a kernel that loads all of the classes, and
// job.php, which runs the job whose id is its argument.
func framework(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(folder, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for i := range classes {
		put(fmt.Sprintf("src/Service%d.php", i), fmt.Sprintf(
			"<?php\nnamespace App;\nfinal class Service%d\n{\n    public function number(): int { return %d; }\n}\n", i, i))
	}
	put("vendor/autoload.php", `<?php
spl_autoload_register(static function (string $class): void {
    require __DIR__ . '/../src/' . substr($class, strlen('App\\')) . '.php';
});
`)
	put("src/Kernel.php", fmt.Sprintf(`<?php
namespace App;
final class Kernel
{
    private array $services = [];

    public function __construct()
    {
        for ($i = 0; $i < %d; $i++) {
            $class = "App\\Service$i";
            $this->services[] = new $class();
        }
    }

    public function handle(int $id): int
    {
        $sum = array_sum(array_map(static fn ($s) => $s->number(), $this->services));
        echo "job $id: $sum\n";
        return $id %% 2 ? 0 : 3;
    }
}
`, classes))
	put("job.php", `<?php
require __DIR__ . '/vendor/autoload.php';
exit((new App\Kernel())->handle((int) $argv[1]));
`)
	return folder
}

// moved is examples/launchers/fork.php with the application in it, as docs/executors.md says, and
// how many lines differ.
func moved(t *testing.T) (text string, changed int) {
	t.Helper()
	source := must.Get(os.ReadFile(filepath.Join("..", "..", "examples", "launchers", "fork.php")))(t)
	before := strings.Split(string(source), "\n")
	text = strings.NewReplacer(
		"// require __DIR__ . '/vendor/autoload.php';", "require __DIR__ . '/vendor/autoload.php';\n$kernel = new App\\Kernel();",
		`    echo "job $id, attempt ", getenv('JOBD_ATTEMPT') ?: 1, "\n";`+"\n    return 0;", "    return $GLOBALS['kernel']->handle($id);",
	).Replace(string(source))
	had := map[string]bool{}
	for _, line := range before {
		had[line] = true
	}
	for _, line := range strings.Split(text, "\n") {
		if !had[line] {
			changed++
		}
	}
	return text, changed
}

// An application moves from a process for each job to forks of one that has loaded it: by a copy of
// the example and two lines of configuration. Its jobs end as they did, with the same output.
func TestAnApplicationMovesToFork(t *testing.T) {
	t.Parallel()
	folder := framework(t)
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "node-1", "php "+filepath.Join(folder, "job.php")+" {id}", map[string]int{"a": 2})
	file := settings.Write(t)
	worker := harness.Launch(t, "jobd", file, settings.Addr()).Ready(t)
	outcomes := func(from int64) (all string) {
		for id := from; id < from+4; id++ {
			db.Insert(t, id, "a", "waiting")
		}
		client := harness.Dial(t, worker.Addr)
		client.Ask(t, "poll", nil)
		for id := from; id < from+4; id++ {
			row := db.AwaitDone(t, id)
			all += strings.ReplaceAll(fmt.Sprintln(harness.Text(row.Result), *row.Code, harness.Text(row.Stdout), harness.Text(row.Stderr)), fmt.Sprintf("job %d:", id), "job N:")
		}
		return all
	}
	before := outcomes(11)
	text, changed := moved(t)
	if changed != 3 {
		t.Errorf("%d lines of the example are changed:\n%s", changed, text)
	}
	must.Do(t, os.WriteFile(filepath.Join(folder, "jobs.php"), []byte(text), 0o644))
	now := settings.With(harness.Settings{"launcher": "php " + filepath.Join(folder, "jobs.php"), "launcher_mode": "fork"})
	must.Do(t, os.WriteFile(file, []byte(now.String()), 0o600))
	worker.Signal(t, syscall.SIGHUP)
	harness.Until(t, func() string {
		if out := worker.Output(); strings.Contains(out, "configuration is taken over") {
			return ""
		}
		return "SIGHUP was not acted on:\n" + worker.Output()
	})
	if after := outcomes(21); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
	asked := harness.Dial(t, worker.Addr)
	harness.Until(t, func() string { // the runner tells some ten times a second at most
		var status struct {
			Executors []struct {
				Target, Mode string
				Jobs         int
			}
		}
		asked.Ask(t, "status", nil).Decode(t, &status)
		if e := status.Executors; len(e) == 1 && e[0].Mode == "fork" && e[0].Jobs == 4 {
			return ""
		}
		return fmt.Sprintf("status says of executors: %+v", status.Executors)
	})
	if n := strings.Count(before, "job N: 19900"); n != 4 {
		t.Errorf("%d of the jobs say what they should:\n%s", n, before)
	}
}

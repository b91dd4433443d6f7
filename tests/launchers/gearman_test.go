package launchers_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// gearman is the part of docs/migration.md about Gearman, by the languages of its blocks.
func gearman(t *testing.T) map[string][]string {
	t.Helper()
	page := must.Get(os.ReadFile(filepath.Join(harness.Top(), "docs", "migration.md")))(t)
	_, part, _ := strings.Cut(string(page), "\n## From Gearman\n")
	part, _, _ = strings.Cut(part, "\n## ")
	blocks := map[string][]string{}
	for _, block := range regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```").FindAllStringSubmatch(part, -1) {
		blocks[block[1]] = append(blocks[block[1]], block[2])
	}
	if len(blocks["php"]) != 2 || len(blocks["sql"]) != 1 || len(blocks["ini"]) != 1 {
		t.Fatalf("the page has other blocks: %v", blocks)
	}
	return blocks
}

// swapped is a text with something else in the place of what it must have once.
func swapped(t *testing.T, text, what, by string) string {
	t.Helper()
	must.Equal(t, strings.Count(text, what), 1, "%q is … times in: %s", what, text)
	return strings.Replace(text, what, by, 1)
}

// An application whose jobs were Gearman's has the same functions run by a pool, with what the page
// about the migration says: its column, its run, its configuration, and its client.
func TestAnApplicationMovesFromGearman(t *testing.T) {
	t.Parallel()
	blocks, folder := gearman(t), t.TempDir()
	db := harness.NewDatabase(t)
	db.Exec(t, blocks["sql"][0])
	host, port, _ := strings.Cut(db.Addr, ":")
	const connects = `new PDO('mysql:host=127.0.0.1;dbname=application', 'app', 'secret')`
	user := "app_" + db.Name // the application's: it inserts rows
	db.Exec(t, fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY 'secret'", user))
	db.Exec(t, fmt.Sprintf("GRANT SELECT, INSERT ON %s.* TO %s@'%%'", db.Name, user))
	pdo := fmt.Sprintf("new PDO('mysql:host=%s;port=%s;dbname=%s', '%s', 'secret')", host, port, db.Name, user)
	put := func(name, text string) string {
		path := filepath.Join(folder, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}

	// The worker: what had run Gearman's functions runs jobs.
	put("application.php", `<?php
function send_mail(array $letter): void { echo "to {$letter['to']}\n"; }
function resize(array $image): bool
{
    if ($image['width'] < 1) return false;
    if ($image['width'] > 9999) throw new RangeException("too wide");
    echo "{$image['file']} has {$image['width']}\n";
    return true;
}
`)
	source := must.Get(os.ReadFile(filepath.Join(harness.Top(), "examples", "launchers", "pool.php")))(t)
	program := swapped(t, string(source), "// require __DIR__ . '/vendor/autoload.php';", "require __DIR__ . '/application.php';")
	begin, end := strings.Index(program, "/** Runs one job"), strings.Index(program, "\n}\n")+len("\n}\n")
	program = program[:begin] + swapped(t, blocks["php"][0], connects, pdo) + program[end:]
	launcher := put("jobs.php", program)
	ini := swapped(t, blocks["ini"][0], "/srv/app/jobs.php", launcher)
	settings := db.Worker(t, "node-1", "", nil)
	config := settings.Write(t)
	base := must.Get(os.ReadFile(config))(t)
	head, _, _ := strings.Cut(string(base), "[targets]")
	head = regexp.MustCompile(`(?m)^launcher .*\n`).ReplaceAllString(head, "")
	must.Do(t, os.WriteFile(config, []byte(head+ini), 0o600))
	worker := harness.Launch(t, "jobd", config, settings.Addr()).Ready(t)

	// The clients: each call is a row.
	_, workerPort, _ := strings.Cut(worker.Addr, ":")
	client := fmt.Sprintf("<?php\nrequire '%s';\n$jobs = new Jobd(['port' => %s, 'master' => false]);\n$db = %s;\n$letter = ['to' => 'ada@example.org'];\n",
		filepath.Join(harness.Top(), "examples", "clients", "jobd.php"), workerPort, pdo)
	for _, image := range []string{"['file' => 'a.png', 'width' => 20]", "['file' => 'b.png', 'width' => 0]", "['file' => 'c.png', 'width' => 10000]"} {
		more := strings.NewReplacer("'mail'", "'resize'", "$letter", "$image").Replace(blocks["php"][1])
		blocks["php"] = append(blocks["php"], "$image = "+image+";\n"+more)
	}
	if output, err := exec.Command("php", put("client.php", client+strings.Join(blocks["php"][1:], ""))).CombinedOutput(); err != nil || len(output) > 0 {
		t.Fatalf("the client: %v: %s", err, output)
	}

	for id, want := range map[int64]string{
		1: `ok 0 "to ada@example.org\n" ""`,
		2: `ok 0 "a.png has 20\n" ""`,
		3: `fail 1 "" ""`,
		4: `fail 255 "" "RangeException: too wide"`,
	} {
		row := db.AwaitDone(t, id)
		lines := strings.Split(strings.TrimSpace(harness.Text(row.Stderr)), "\n")
		if got := fmt.Sprintf("%s %d %q %q", harness.Text(row.Result), *row.Code, harness.Text(row.Stdout), lines[len(lines)-1]); got != want {
			t.Errorf("job %d: %s, want %s", id, got, want)
		}
	}
}

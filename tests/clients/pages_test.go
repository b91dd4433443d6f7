package clients

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// The pages: their code, in the files that it names, takes an order in the
// application and runs the job about it, with the launcher that the page has. Django is Debian's,
// Laravel and Rails as much of it as the page calls, in testdata.
func TestPagesWorkAsTheyStand(t *testing.T) {
	t.Parallel()
	django := python(t)
	pages := []struct {
		name, client string
		launcher     *strings.Replacer // makes the page's launcher one that is here
		order        []string          // the command that takes an order
		now          []string          // one that runs a job by hand
		told         string            // on stderr, where the master is gone
		fails        string            // the last line of stderr of a job of another target
	}{
		{name: "php", client: "jobd.php", order: []string{"php", "order.php"}, now: []string{"php", "now.php"}, told: "can't be reached", fails: "RuntimeException: nobody knows what to do for target other"},
		{name: "laravel", client: "jobd.php", order: []string{"php", "order.php"}, told: "reported: jobd-master at"},
		{name: "django", client: "jobd.py", launcher: strings.NewReplacer("/srv/application/venv/bin/python", django), order: []string{django, "order.py"}, told: "can't be reached"},
		{name: "rails", order: []string{"ruby", "order.rb"}, told: "poke of mail: "},
	}
	for _, page := range pages {
		t.Run(page.name, func(t *testing.T) {
			t.Parallel()
			folder := unpacked(t, page.name, page.client)
			launcher := pageLauncher(t, page.name)
			if page.launcher != nil {
				launcher = page.launcher.Replace(launcher)
			}
			db := harness.NewDatabase(t, applicationTables...)
			master := harness.StartMaster(t, harness.Settings{"password": password})
			env := pageSettings(master)
			s := harness.Settings{"password": password, "launcher.cwd": folder}
			for name, value := range env.with(application(t, db)) {
				s["launcher.env."+name] = value
			}
			db.Worker(t, page.name, strings.ReplaceAll(launcher, "/srv/application", folder), map[string]int{"mail": 2, "other": 1}).
				With(harness.MasterOf(master), s).StartWorker(t)
			harness.AwaitWorkers(t, master, password, 1)
			run := func(command []string, text string) (stdout, stderr string) {
				return inFolder(t, folder, s, append(command[:len(command):len(command)], text))
			}

			text := "two tickets, für Käthe 😀"
			if out, _ := run(page.order, text); !strings.HasPrefix(out, "job 1") {
				t.Errorf("an order: %q; want its job's id", out)
			}
			check.Equal(t, harness.Text(db.AwaitDone(t, 1).Stdout), "mailed: "+text+"\n", "the job wrote")
			if page.now != nil {
				if out, _ := run(page.now, text); out != "ok: mailed: "+text+"\n" {
					t.Errorf("a job by hand: %q", out)
				}
			}
			if page.fails != "" {
				db.Insert(t, 100, "other", "waiting")
				client := harness.Dial(t, master.Addr)
				client.Authorise(t, password)
				client.Ask(t, "poke", map[string]any{"targets": []string{"other"}})
				row := db.AwaitDone(t, 100)
				if lines := strings.Split(strings.TrimSpace(harness.Text(row.Stderr)), "\n"); *row.Code != 255 || lines[len(lines)-1] != page.fails {
					t.Errorf("a job that fails: code %d, %q; its last line is not %q", *row.Code, lines, page.fails)
				}
			}
			master.Kill(t)
			before := db.Count(t, "status = 'waiting'")
			out, told := run(page.order, "nobody pokes")
			if after := db.Count(t, "status = 'waiting'"); before != 0 || after != 1 || !strings.Contains(told, page.told) {
				t.Errorf("an order without a master: %d, then %d jobs wait; %q, %q", before, after, out, told)
			}
		})
	}
}

// The oldest Python that the client promises reads it: by the grammar of that version, which newer
// ones know.
func TestOldPythonReadsTheClient(t *testing.T) {
	t.Parallel()
	const old = "import ast, sys; ast.parse(sys.stdin.read(), feature_version=(3, 8))"
	for source, reads := range map[string]bool{readFile(t, "examples", "clients", "jobd.py"): true, "match 1:\n    case 1: pass\n": false} {
		cmd := exec.CommandContext(t.Context(), python(t), "-c", old)
		cmd.Stdin = strings.NewReader(source)
		if out, err := cmd.CombinedOutput(); (err == nil) != reads {
			t.Errorf("Python 3.8 reads %.60q: %v: %s", source, err, out)
		}
	}
}

// pageSettings are the variables that the pages read.
func pageSettings(master *harness.Daemon) settings {
	_, port, _ := strings.Cut(master.Addr, ":")
	return settings{"JOBS_PORT": port, "JOBS_PASSWORD": password}
}

// inFolder runs a command with the environment that the settings give launchers.
func inFolder(t *testing.T, folder string, s harness.Settings, command []string) (stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env = folder, os.Environ()
	for name, value := range s {
		if variable, found := strings.CutPrefix(name, "launcher.env."); found {
			cmd.Env = append(cmd.Env, variable+"="+value)
		}
	}
	var out, told bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &told
	if err := cmd.Run(); err != nil {
		t.Fatalf("%q: %v: %s%s", command, err, out.String(), told.String())
	}
	return out.String(), told.String()
}

// named finds the code blocks of a page that name their files: on their first line, in a comment.
var named = regexp.MustCompile("(?s)```(?:php|python|ruby)\n((?:<\\?php //|#) ([a-zA-Z_/]+\\.(?:php|py|rb)).*?)```")

// unpacked is a folder with the files of a page, the client, if it is about one, and what testdata has beside them.
func unpacked(t *testing.T, name, client string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	must.Do(t, os.CopyFS(folder, os.DirFS(testdata(t, name))))
	text := readFile(t, "docs", "clients", name+".md")
	blocks := named.FindAllStringSubmatch(text, -1)
	if all := strings.Count(text, "```php\n") + strings.Count(text, "```python\n") + strings.Count(text, "```ruby\n"); len(blocks) != all || all == 0 {
		t.Fatalf("docs/clients/%s.md: %d of %d code blocks name a file", name, len(blocks), all)
	}
	for _, block := range blocks {
		writeFile(t, filepath.Join(folder, block[2]), block[1])
	}
	if client != "" {
		writeFile(t, filepath.Join(folder, client), readFile(t, "examples", "clients", client))
	}
	return folder
}

// pageLauncher is the launcher in a page's example of a configuration.
func pageLauncher(t *testing.T, name string) string {
	t.Helper()
	for line := range strings.Lines(readFile(t, "docs", "clients", name+".md")) {
		if launcher, found := strings.CutPrefix(line, "launcher = "); found {
			return strings.TrimSpace(launcher)
		}
	}
	t.Fatalf("docs/clients/%s.md has no launcher", name)
	return ""
}

func readFile(t *testing.T, names ...string) string {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join(append([]string{harness.Top()}, names...)...)))(t)
	return string(content)
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o644)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("a page's file: %w", err))
	}
}

// What is no answer of jobd's is an error of the client's own, and never a job that is taken to have
// run, or an error of the language.
func TestClientsRefuseOtherAnswers(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 100_000)
	for name, answer := range map[string]string{
		"nothing":           `[1,{"no":1,"data":null}]`,
		"a text":            `[1,{"no":1,"data":"ok"}]`,
		"other errors":      `[1,{"no":1,"data":{"errors":"none"}}]`,
		"deep lists":        deep,
		"a page, and gone":  "HTTP/1.1 400 Bad Request\r\n\r\nno",
		"an error, no text": `[1,{"no":1,"error":{"a":[1]},"code":[2]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := listen(t, func(p *peer) {
				if strings.HasPrefix(name, "a page") {
					fmt.Fprint(p.conn, answer)
					p.conn.Close()
					return
				}
				p.send(answer)
				if answer == deep {
					p.conn.Close() // bash reads no lists
				}
			})
			everywhere(t, func(t *testing.T, _ int, l language) {
				if l.name == "sh" && strings.Contains("deep lists, other errors, an error, no text", name) {
					return // it hands on what it gets, and looks at the beginning only
				}
				for _, word := range []string{"run 1:a", "signal 9 1:a"} {
					told := l.call(daemon(addr, true, ""), strings.Fields(word)...)
					if name == "an error, no text" {
						if told.code != "refused" && told.code != "nonsense" {
							t.Errorf("%s: %s: %v", l.name, word, told)
						}
					} else if !told.failed(l, "nonsense") {
						t.Errorf("%s: %s: %v", l.name, word, told)
					}
				}
			})
		})
	}
}

// A time that bash can't read is wrong usage, not a job that failed; the forms that jobctl takes are
// read.
func TestTimesOfTheShellsClient(t *testing.T) {
	t.Parallel()
	addr := listen(t, func(p *peer) { p.send(`[1,{"no":1,"data":{"jobs":{}}}]`) })
	for limit, code := range map[string]int{
		"8s": 0, "9.5": 0, "15000ms": 0, "08": 0, "": 0,
		"soon": 2, "-1": 2, "1e3": 2, "1.5m": 2, "a[$(exit)]": 2,
	} {
		for _, name := range []string{"JOBCTL_TIMEOUT", "JOBCTL_PULSE"} {
			cmd := exec.CommandContext(t.Context(), filepath.Join(harness.Top(), "examples", "clients", "jobd.sh"), "run", "1:a")
			cmd.Env = os.Environ()
			for key, value := range daemon(addr, true, "") {
				cmd.Env = append(cmd.Env, key+"="+value)
			}
			cmd.Env = append(cmd.Env, name+"="+limit)
			out, _ := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != code || code == 2 != strings.Contains(string(out), name) {
				t.Errorf("%s=%s: exit code %d, want %d: %s", name, limit, got, code, out)
			}
		}
	}
}

package refusal

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// check runs a daemon with --check, and gives its exit code and its report.
func check(t *testing.T, program string, settings harness.Settings) (code int, report string) {
	t.Helper()
	cmd := exec.CommandContext(harness.Bounded(t), harness.Program(t, program), "--config", settings.Write(t), "--check")
	out, _ := cmd.CombinedOutput() // the code tells
	for line := range strings.Lines(string(out)) {
		level, rest, _ := strings.Cut(line, " ")
		if !slices.Contains([]string{"ok", "warning", "wrong"}, level) || !strings.Contains(rest, ": ") {
			t.Errorf("line of the report: %q", line)
		}
	}
	for _, secret := range []string{"password", "mysql_password"} {
		if settings[secret] != "" && strings.Contains(string(out), settings[secret]) {
			t.Errorf("the report tells %s", secret)
		}
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// tree is the files below a folder, with their sizes and times.
func tree(t *testing.T, dir string) (files []string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			files = append(files, fmt.Sprint(path, info.Size(), info.ModTime(), info.Mode()))
		}
		return err
	}))
	return files
}

// Beside a worker that runs everything is right, and --check leaves everything as it is.
func TestCheckBesideAWorker(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t, harness.Settings{"password": "open sesame"})
	settings := db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).
		With(harness.MasterOf(master), harness.Settings{"password": "open sesame"})
	before := settings.With(harness.Settings{"journal_dir": filepath.Join(t.TempDir(), "below", "journal")})
	if code, report := check(t, "jobd", before); code != 0 || !strings.Contains(report, "will be made") {
		t.Errorf("before the first start: exit code %d:\n%s", code, report)
	}
	if _, err := os.Stat(filepath.Dir(before["journal_dir"])); !os.IsNotExist(err) {
		t.Errorf("--check made the journal's folder: %v", err)
	}

	worker := settings.StartWorker(t)
	harness.AwaitWorkers(t, master, "open sesame", 1)
	db.Insert(t, 1, "a", "done")
	code, report := check(t, "jobd", settings)
	expect(t, code, 0, report, fmt.Sprintf("in use by process %d", worker.Pid), "sound as far as a start relies on it",
		"takes this credential", "/bin/true can be executed", "it has what a worker needs")
	if strings.Contains(report, "wrong ") {
		t.Errorf("report:\n%s", report)
	}
	if code, report := check(t, "jobd-master", harness.Settings{"host": "127.0.0.1", "port": strings.Split(master.Addr, ":")[1]}); code != 0 {
		t.Errorf("of the master: exit code %d:\n%s", code, report)
	}

	worker.Signal(t, syscall.SIGTERM)
	worker.ExitCode(t)
	files := tree(t, settings["journal_dir"])
	if code, report = check(t, "jobd", settings); code != 0 || strings.Contains(report, "in use") {
		t.Errorf("after the worker: exit code %d:\n%s", code, report)
	}
	if after := tree(t, settings["journal_dir"]); !slices.Equal(after, files) {
		t.Errorf("the journal's folder was\n%q\nand is\n%q", files, after)
	}
}

// Whatever is wrong is told at once, though the database hangs.
func TestCheckTellsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	_, port, _ := net.SplitHostPort(silent.Addr().String())
	file := filepath.Join(t.TempDir(), "file")
	harness.Touch(t, file)
	master := harness.StartMaster(t, harness.Settings{"password": "open sesame"})
	wrong := harness.NewDatabase(t).Worker(t, "worker", "/nowhere/launcher {id}", map[string]int{"a": 1}).
		With(harness.MasterOf(master), harness.Settings{
			"password": "geheim", "port": port, "mysql_host": "127.0.0.1", "mysql_port": port,
			"journal_dir": filepath.Join(file, "journal"), "log_file": "/nowhere/jobd.log",
		})
	all := []string{
		"wrong    log_file /nowhere/jobd.log", "wrong    address 127.0.0.1:" + port, "in use by another program",
		"wrong    launcher: ", "/nowhere/launcher", "wrong    journal: ", file, "(mysql_host, mysql_port), user", "refuses this worker's password",
	}
	code, report := check(t, "jobd", wrong)
	expect(t, code, 1, report, all...)
	code, report = check(t, "jobd", wrong.With(harness.Targets(map[string]int{"a": 0})))
	expect(t, code, 2, report, append(all, "wrong    configuration: ", "targets.a")...)
	code, report = check(t, "jobd-master", harness.Settings{"host": "127.0.0.1", "port": port, "log_file": "/nowhere/master.log"})
	expect(t, code, 1, report, "in use by another program", "/nowhere/master.log")
	code, report = check(t, "jobd-master", harness.Settings{"host": "127.0.0.1", "port": port, "ping_interval": "x"})
	expect(t, code, 2, report, "in use by another program", "ping_interval")
}

// An account that may not update, a name that no row can have, and a damaged journal.
func TestCheckOfTheTableAndTheJournal(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1})
	settings.StartWorker(t).Crash(t)
	head := filepath.Join(settings["journal_dir"], "head")
	must.Do(t, os.WriteFile(head, []byte("jobd-head 999999 nothing\n"), 0o600))
	long := strings.Repeat("x", 300)
	code, report := check(t, "jobd", settings.With(harness.Targets(map[string]int{long: 1})))
	expect(t, code, 1, report, "wrong    journal ", "head file", long)

	settings["journal_dir"] = filepath.Join(t.TempDir(), "journal")
	account := fmt.Sprintf("'%s'@'%%'", db.Account.User)
	db.Exec(t, "REVOKE UPDATE ON "+db.Name+".jobs FROM "+account)
	code, report = check(t, "jobd", settings)
	expect(t, code, 1, report, "UPDATE command denied")
}

// Where a password's file can't be read, that is what --check tells: what would be asked with the
// password is not asked without it, and not said to refuse it.
func TestCheckWithoutThePasswords(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t, harness.Settings{"password": "open sesame"})
	worker := db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).Without("password", "mysql_password").With(harness.MasterOf(master)).
		With(harness.Settings{"password_file": "password", "mysql_password_file": "mysql_password"})
	code, report := check(t, "jobd", worker)
	if code != 2 || strings.Count(report, "CREDENTIALS_DIRECTORY=/run/credentials/jobd.service") != 2 {
		t.Errorf("exit code %d:\n%s", code, report)
	}
	for line := range strings.Lines(report) {
		if strings.HasPrefix(line, "wrong") && !strings.Contains(line, "password_file") {
			t.Errorf("what follows from it is told, too: %s", line)
		}
	}
}

func TestMain(m *testing.M) { harness.MainAtOnce(m, 4) }

// complete is a configuration with nothing wrong in it; no server is asked before it is checked.
func complete(t *testing.T) harness.Settings {
	return harness.Settings{
		"host": "127.0.0.1", "port": harness.FreePort(t),
		"mysql_host": "127.0.0.1", "mysql_port": "3306", "mysql_user": "jobd",
		"mysql_password": "do-not-tell", "mysql_database": "application",
		"launcher": "/bin/true {id}", "journal_dir": filepath.Join(t.TempDir(), "journal"),
	}.With(harness.Targets(map[string]int{"a": 1}))
}

func TestAllMistakesAreToldAtOnce(t *testing.T) {
	t.Parallel()
	code, output := complete(t).Without("launcher", "mysql_user").
		With(harness.Settings{"port": "x", "on_crash": "y", "[targets] a": "0"}).Refused(t)
	expect(t, code, 2, output, "port", "on_crash", "launcher", "mysql_user", "targets.a")
}

// expect compares an exit code and looks for words in what was said. The
// password of complete must never be among them.
func expect(t *testing.T, code, want int, output string, words ...string) {
	t.Helper()
	if code != want {
		t.Errorf("exit code %d, want %d:\n%s", code, want, output)
	}
	for _, word := range words {
		if !strings.Contains(output, word) {
			t.Errorf("it does not say %q:\n%s", word, output)
		}
	}
	if strings.Contains(output, "do-not-tell") {
		t.Errorf("it tells the password:\n%s", output)
	}
}

// without is the usual table less some columns.
func without(columns ...string) string {
	var kept strings.Builder
	for line := range strings.Lines(dbserver.JobsTable) {
		missing := slices.ContainsFunc(columns, func(name string) bool { return strings.HasPrefix(line, "  `"+name+"`") })
		if !missing {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// What waiting cannot mend ends the start, with words that name what is wrong. (All that can be wrong, store/mysql tests.)
func TestDatabaseThatCannotWork(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		table string
		wrong harness.Settings
		words []string
	}{
		{name: "two columns missing", table: without("sig", "stderr"), words: []string{"it has no column sig", "ADD COLUMN `sig` char(10) DEFAULT NULL", "ADD COLUMN `stderr` mediumtext DEFAULT NULL"}},
		{name: "MyISAM", table: strings.ReplaceAll(dbserver.JobsTable, "InnoDB", "MyISAM"), words: []string{"MyISAM", "InnoDB"}},
		{
			name: "owner column too narrow", table: strings.ReplaceAll(dbserver.JobsTable, "char(10)", "char(5)"),
			words: []string{"sig", "ALTER TABLE"},
		},
		{name: "wrong password", wrong: harness.Settings{"mysql_password": "do-not-tell"}, words: []string{"denied", "(mysql_user)", "127.0.0.1:", "(mysql_host, mysql_port)"}},
		{name: "no such table", wrong: harness.Settings{"mysql_table": "no_such_table"}, words: []string{"no_such_table"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			table := c.table
			if table == "" {
				table = dbserver.JobsTable
			}
			db := harness.NewDatabase(t, table)
			code, output := db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).With(c.wrong).Refused(t)
			expect(t, code, 1, output, c.words...)
			if strings.Contains(output, db.Account.Password) {
				t.Errorf("it tells the password:\n%s", output)
			}
		})
	}
}

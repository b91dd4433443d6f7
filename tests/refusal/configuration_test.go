package refusal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

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

func TestWrongValueOfEveryKey(t *testing.T) {
	t.Parallel()
	cases := []struct{ key, value, allowed string }{
		{"host", "", "one name or address"},
		{"host", "127.0.0.1:7080", "one name or address; a port belongs to the key port"},
		{"mysql_host", "db:3306", "a port belongs to the key mysql_port"},
		{"port", "eighty", "0 to 65535"},
		{"port", "65536", "0 to 65535"},
		{"port", "-1", "0 to 65535"},
		{"name", "", "but an empty one"},
		{"master_port", "0", "1 to 65535"},
		{"master_host", "a:b:c", "a, b:7082"},
		{"master_reconnect_timeout", "soon", "500ms"},
		{"log_level_console", "loud", "trace"},
		{"log_level_file", "loud", "trace"},
		{"mysql_port", "x", "1 to 65535"},
		{"mysql_table", "a.b.c", "database.table"},
		{"mysql_fetch_limit", "-1", "at least 0"},
		{"store", "oracle", "sqlite"},
		{"mysql_max_connections", "3", "from 4 to 1000"},
		{"claim_column", "", "but an empty one"},
		{"launcher", " ", "a command"},
		{"launcher_split", "words", "shell"},
		{"launcher.cwd", "/nowhere/at/all", "a folder that exists"},
		{"max_output_buffer", "much", "16MiB"},
		{"max_output_buffer", "0", "1"},
		{"prefetch", "-2", "at least 0"},
		{"poll_interval", "-1", "0"},
		{"launch_offline", "maybe", "run"},
		{"on_crash", "panic", "requeue"},
		{"shutdown_timeout", "later", "500ms"},
		{"on_stop", "drop", "handover"},
		{"max_message_size", "12", "65536"},
		{"[targets] a", "0", "at least 1"},
		{"[targets] a", "many", "at least 1"},
		{"[targets] null", "1", "reserved"},
	}
	for _, c := range cases {
		t.Run(c.key+" = "+c.value, func(t *testing.T) {
			t.Parallel()
			settings := complete(t).With(harness.Settings{c.key: c.value})
			key := strings.TrimPrefix(c.key, "[targets] ")
			code, output := settings.Refused(t)
			expect(t, code, 2, output, "jobd.conf", key, c.allowed)
		})
	}
}

// What the original took without a word is taken still, and told with the file, the line and what to do, before anything else happens.
func TestOddValuesAreTold(t *testing.T) {
	t.Parallel()
	settings := complete(t)
	text := strings.Replace(settings.String(), `host = "127.0.0.1"`, "host = 0.0.0.0", 1)
	text = "password = do-not-tell#me\nalways_allow_localhost = yes\nport = 1\n" + text + "b = 1\n  mysql_table = 3\n"
	text = strings.Replace(text, "password = do-not-tell#me", "password = #do-not-tell", 1)
	file := filepath.Join(t.TempDir(), "jobd.conf")
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	must.Do(t, os.Chmod(file, 0o644))
	launched := harness.Launch(t, "jobd", file, "", "--on-crash=never") // a mistake, so that it ends
	code, output := launched.ExitCode(t), launched.Output()
	expect(t, code, 2, output,
		file+":1: password: it ends before its #",
		file+":2: always_allow_localhost: its value counts as false; allowed are 1 and true, 0 and false",
		"port: given in line 3 too, with another value",
		"host: it listens beyond this host, and there is no password",
		": the key mysql_table stands in the section [targets]; allowed is the place above it, or quotes around it",
		file+": everybody on this host can read it (mode 0644), and there is a password in it (mysql_password)",
	)
	if strings.Contains(output, "do-not-tell") {
		t.Errorf("it tells a password:\n%s", output)
	}
}

func TestMissingKeys(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		"host", "port", "mysql_host", "mysql_port", "mysql_user", "mysql_password", "mysql_database", "launcher", "[targets] a",
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			code, output := complete(t).Without(key).Refused(t)
			expect(t, code, 2, output, strings.TrimSuffix(key, " a"))
		})
	}
}

func TestAllMistakesAreToldAtOnce(t *testing.T) {
	t.Parallel()
	code, output := complete(t).Without("launcher", "mysql_user").
		With(harness.Settings{"port": "x", "on_crash": "y", "[targets] a": "0"}).Refused(t)
	expect(t, code, 2, output, "port", "on_crash", "launcher", "mysql_user", "targets.a")
}

func TestMissingFile(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"jobd", "jobd-master"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "none.conf")
			d := harness.Launch(t, program, file, "")
			expect(t, d.ExitCode(t), 2, d.Output(), file)
		})
	}
}

func TestWrongValueForTheMaster(t *testing.T) {
	t.Parallel()
	cases := []struct{ key, value, allowed string }{
		{"port", "x", "65535"},
		{"ping_interval", "often", "500ms"},
		{"poke_throttle_interval", "-1", "0"},
		{"max_message_size", "huge", "16MiB"},
		{"log_level_console", "loud", "trace"},
	}
	for _, c := range cases {
		t.Run(c.key, func(t *testing.T) {
			t.Parallel()
			s := harness.Settings{"host": "127.0.0.1", "port": harness.FreePort(t)}.With(harness.Settings{c.key: c.value})
			d := harness.Launch(t, "jobd-master", s.Write(t), "")
			expect(t, d.ExitCode(t), 2, d.Output(), "jobd.conf", c.key, c.allowed)
		})
	}
}

func TestUnknownKeyIsAWarningThatNamesTheNearest(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	worker := db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).
		With(harness.Settings{"mysql_fech_limit": "5"}).StartWorker(t)
	for _, word := range []string{"mysql_fech_limit", "mysql_fetch_limit"} {
		if !strings.Contains(worker.Output(), word) {
			t.Errorf("no warning names %s:\n%s", word, worker.Output())
		}
	}
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

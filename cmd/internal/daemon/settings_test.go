package daemon_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/daemon"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/logging"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// settings is a daemon's configuration with one key of its own.
type settings struct {
	daemon.Settings
	own string
}

func (s *settings) Register(set *conf.Set) {
	s.Listen.Register(set)
	s.Log.Register(set)
	set.Add("own", "", "a key", conf.NonEmpty(&s.own))
}

func (s *settings) Validate(set *conf.Set, environ []string) {
	if s.own == "" {
		set.Bad("own", fmt.Sprintf("with %d variables", len(environ)))
	}
}

func read(args ...string) (s settings, err error) {
	program := conf.Program{Name: "testd", Summary: "testd is tested.", Prefix: "TESTD_"}
	err = s.Read(program, &s, args, []string{"A=b"}, new(bytes.Buffer))
	return s, err
}

// What can't be understood at all is no --check, though there is one in it.
func TestCheckOfFlagsThatAreNone(t *testing.T) {
	t.Parallel()
	s, err := read("--check", "--nonsense-of-a-flag")
	if err == nil || exit.Code(err) != exit.Usage || s.Check.Asked {
		t.Errorf("error %v, check %+v", err, s.Check)
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"sound":      {[]string{"--check", "--host=127.0.0.1", "--port=0", "--own=x"}, exit.Success, []string{"ok       address 127.0.0.1:0: free"}},
		"mistakes":   {[]string{"--check", "--host=127.0.0.1", "--port=0"}, exit.Usage, []string{"wrong    configuration: own", "ok       address"}},
		"as a start": {[]string{"--check=start:127.0.0.1:1", "--host=127.0.0.1", "--port=0", "--own=x"}, exit.Success, []string{"testd ", "ok       address"}},
	} {
		s, err := read(test.args...)
		var report strings.Builder
		if code := exit.Code(s.Look("testd", err, func() string { return "" }, nil, &report)); code != test.code {
			t.Errorf("%s: exit code %d, want %d", name, code, test.code)
		}
		for _, want := range test.want {
			if !strings.Contains("\n"+report.String(), "\n"+want) {
				t.Errorf("%s: no line begins with %q:\n%s", name, want, &report)
			}
		}
	}
}

// A SIGHUP opens the log anew and takes over its levels, unless the new configuration can't be
// taken over.
func TestReload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	log := must.Get(logging.Open(logging.Config{File: file, FileLevel: slog.LevelWarn, ConsoleLevel: slog.LevelError}, new(bytes.Buffer)))(t)
	must.Do(t, os.Rename(file, file+".1"))
	quiet, loud := daemon.Settings{Log: logging.Config{FileLevel: slog.LevelError}}, daemon.Settings{
		Path: "/etc/testd.conf", Warnings: []string{"something is odd"}, Log: logging.Config{FileLevel: slog.LevelInfo},
	}
	var reading daemon.Reading
	if words := reading.Words("it serves"); words != "it serves" || !reading.Refused().IsZero() {
		t.Errorf("of a configuration that nobody has read again it says %q", words)
	}
	reading.Reload(log, func() (daemon.Settings, error) { return quiet, errors.New("it is wrong: hunter2") })
	since := reading.Refused()
	reading.Reload(log, func() (daemon.Settings, error) { return quiet, errors.New("it is still wrong") })
	if words := reading.Words("it serves"); !strings.HasPrefix(words, "it serves; the configuration was refused at ") || strings.Contains(words, "hunter2") {
		t.Errorf("of one that was refused it says %q", words)
	}
	if again := reading.Refused(); since.IsZero() || !again.Equal(since) {
		t.Errorf("it was refused at %s, and then at %s", since, again)
	}
	reading.Reload(log, func() (daemon.Settings, error) { return loud, nil })
	check.Equal(t, reading.Words("it serves"), "it serves", "of one that was taken over it says")
	must.Do(t, log.Close())
	content := must.Get(os.ReadFile(file))(t)
	for _, want := range []string{"the old one stays in force", "it is wrong", "something is odd", "configuration was read again", "/etc/testd.conf"} {
		check.Contains(t, string(content), want, "the log has no …: %s", content)
	}
}

// What the binary on the disk says decides whether this process may be followed by it.
func TestASuccessorIsTriedFirst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ script, want string }{
		"sound":            {"echo 'testd 9.9.9'; echo 'ok       configuration: x'; echo 'warning  y: z'", ""},
		"it would end":     {"echo 'testd 9.9.9'; echo 'wrong    launcher: gone'; echo 'wrong    journal: gone'; exit 1", "launcher: gone\njournal: gone"},
		"asked as a start": {`echo "testd $*"; [ "$*" = '--config x --check=start:127.0.0.1:1' ]`, ""},
		"older":            {"echo 'testd: unknown flag --check' >&2; exit 2", "not a report of testd: it is not testd, or an older version"},
		"another program":  {"echo hello", `printed "hello\n", not a report of testd`},
		"another's report": {"echo 'testd-master 9.9.9'; echo 'wrong    x: y'; exit 1", "it is not testd"},
		"it fails":         {"echo 'testd 9.9.9'; exit 7", "exit status 7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binary := script(t, "#!/bin/sh\n"+test.script+"\n")
			err := daemon.Successor{Program: "testd", Binary: binary, Args: []string{"--config", "x"}}.Try(t.Context(), "127.0.0.1:1")
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	err := daemon.Successor{Program: "testd", Binary: filepath.Join(t.TempDir(), "nothing")}.Try(t.Context(), "127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("nothing is there: error %v", err)
	}
}

func script(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	syscall.ForkLock.RLock() // a process that another test starts just then would keep the file open
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

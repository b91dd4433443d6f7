package daemon_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/daemon"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/logging"
	jobnet "jobd/net"
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

func TestMistakesOfBothSortsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	_, err := read("--port=x")
	for _, want := range []string{`port: "x" is not allowed`, "host: required", "own: with 1 variables"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
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
	if words := reading.Words("it serves"); words != "it serves" {
		t.Errorf("of one that was taken over it says %q", words)
	}
	must.Do(t, log.Close())
	content := must.Get(os.ReadFile(file))(t)
	for _, want := range []string{"the old one stays in force", "it is wrong", "something is odd", "configuration was read again", "/etc/testd.conf"} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the log has no %q:\n%s", want, content)
		}
	}
}

// An address that is in use ends a start, and names the keys; one that was taken is free again
// after Close.
func TestListen(t *testing.T) {
	t.Parallel()
	c := conf.Listen{Host: "127.0.0.1"}
	server := must.Get(daemon.Listen(c, nil, "peers", jobnet.ServerConfig{}))(t)
	taken := net.TCPAddr{}
	must.Get(fmt.Sscanf(server.Address(), "127.0.0.1:%d", &taken.Port))(t)
	c.Port = taken.Port
	if _, err := daemon.Listen(c, nil, "peers", jobnet.ServerConfig{}); err == nil || !strings.Contains(err.Error(), "listen for peers (keys host and port): ") {
		t.Errorf("error %v", err)
	}
	if err := errors.Join(server.Close(), server.Close()); err != nil {
		t.Error(err)
	}
}

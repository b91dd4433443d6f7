package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/daemon"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/layout"
	"jobd/cmd/internal/logging"
	"jobd/cmd/internal/manualtest"
	"jobd/cmd/internal/pulse"
	"jobd/journal/eventlog"
	jobnet "jobd/net"
	"jobd/store/storetest/must"
)

func TestConfigOfTheOriginal(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "testdata", "configurations", "jobd-master.conf")
	got := must.Get(parseConfig([]string{"--config", path}, []string{"JOBD_MASTER_PASSWORD=s3cret", "JOBD_HOST=other"}, t.Output()))(t)
	want := config{
		Settings: daemon.Settings{
			Path:     path,
			Warnings: []string{"environment JOBD_MASTER_PASSWORD: password: it has fewer than 16 characters, and others reach the port: clients can be locked out by wrong ones from their address; set a longer one, as openssl rand -base64 24 makes it"},
			Listen:   conf.Listen{Host: "0.0.0.0", Port: 7081, Password: "s3cret", MaxMessageSize: 16 << 20},
			Log:      logging.Config{File: "/tmp/jobd-master.log", FileLevel: slog.LevelInfo, ConsoleLevel: slog.LevelWarn, Format: "text", Keep: 10},
		},
		pingInterval: 30 * time.Second, pokeThrottle: 500 * time.Millisecond,
		journal: daemon.Journal{
			Of: "master", Low: "changes are refused", MinFree: 64 << 20,
			Log: eventlog.Config{SegmentSize: 64 << 20, SegmentAge: 24 * time.Hour, Retention: 30 * 24 * time.Hour},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(eventlog.Config{}), cmp.AllowUnexported(config{}, conf.TLS{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConfigWrongValues(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ arg, want string }{
		"host":                   {"--host=", `flag --host: host: "" is not allowed`},
		"port":                   {"--port=99999", `port: "99999" is not allowed; allowed: a whole number from 0 to 65535`},
		"max_message_size":       {"--max-message-size=2GiB", `max_message_size: "2GiB"`},
		"http_listen":            {"--http-listen=:9180", `http_listen: ":9180" is not allowed; allowed: an address and a port, as in 127.0.0.1:9180`},
		"ping_interval":          {"--ping-interval=0", `ping_interval: "0"`},
		"poke_throttle_interval": {"--poke-throttle-interval=-1", `poke_throttle_interval: "-1"`},
		"log_level_file":         {"--log-level-file=x", `log_level_file: "x"`},
		"log_level_console":      {"--log-level-console=x", `log_level_console: "x"`},
		"log_format":             {"--log-format=xml", `log_format: "xml" is not allowed; allowed: one of: text, json`},
		"log_keep":               {"--log-keep=0", `log_keep: "0" is not allowed; allowed: a whole number from 1 to 10000`},
		"unknown flag":           {"--targets=x", "unknown flag in place"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseConfig([]string{"--config=", "--host=::", "--port=7081", test.arg}, nil, t.Output())
			if err == nil || !strings.Contains(err.Error(), test.want) || exit.Code(err) != exit.Usage {
				t.Errorf("error %v, want %q with exit code 2", err, test.want)
			}
		})
	}
	t.Run("nothing given", func(t *testing.T) {
		t.Parallel()
		_, err := parseConfig([]string{"--config="}, nil, t.Output())
		want := "host: required; give it as --host or as JOBD_MASTER_HOST\nport: required; give it as --port or as JOBD_MASTER_PORT"
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	})
}

func TestShippedConfiguration(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "packaging", "jobd-master.conf")
	c, err := parseConfig([]string{"--config", path}, nil, t.Output())
	if err != nil || len(c.Warnings) > 0 {
		t.Fatalf("error %v, warnings %q", err, c.Warnings)
	}
	content := must.Get(os.ReadFile(path))(t)
	for _, key := range []string{"host", "port", "password", "password_file", "always_allow_localhost", "max_message_size", "http_listen", "ping_interval", "poke_throttle_interval", "log_file", "log_level_file", "log_level_console", "log_format", "log_keep", "journal_dir", "journal_segment_size", "journal_segment_age", "journal_retention", "journal_archive_dir", "journal_min_free"} {
		if !strings.Contains(string(content), key+" = ") {
			t.Errorf("%s does not show the key %s", path, key)
		}
	}
}

// A master that listens beyond its host says that nobody needs a password, and takes a worker's
// keys for what they are.
func TestConfigOddValues(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "master.conf")
	must.Do(t, os.WriteFile(path, []byte("host = ::\nport = 0\nmysql_password = hunter2\nalways_allow_localhost = on\nhttp_listen = 0.0.0.0:9181\n"), 0o600))
	c := must.Get(parseConfig([]string{"--config", path}, nil, t.Output()))(t)
	want := []string{
		path + ":3: unknown key mysql_password is not used",
		path + ":4: always_allow_localhost: its value counts as false; allowed: 1 and true, 0 and false",
		path + ":1: host: it listens beyond this host, and there is no password: everybody who reaches the port gives it orders; set password, or host = 127.0.0.1",
		path + ":5: http_listen: it listens beyond this host, and numbers need no password: everybody who reaches the port reads the names of targets, numbers, and errors with the names of hosts and accounts; set principals_file, or 127.0.0.1 or a unix socket, for this host only",
	}
	if diff := cmp.Diff(want, c.Warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Every configuration that was ever shipped is taken as it stands, without a warning; so is what it
// shows behind a ; as an example.
func TestFormerConfigurations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/compat/configuration/jobd-master-*.conf")
	if err != nil || len(files) < 3 {
		t.Fatalf("found %q: %v", files, err)
	}
	shownKey := regexp.MustCompile(`(?m)^; ([a-z_]+ = )`)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			content := must.Get(os.ReadFile(file))(t)
			examples := shownKey.ReplaceAll(content, []byte("$1"))
			for _, text := range [][]byte{content, examples} {
				path := filepath.Join(t.TempDir(), "jobd-master.conf")
				must.Do(t, os.WriteFile(path, text, 0o600))
				c, err := parseConfig([]string{"--config", path}, nil, t.Output())
				if err != nil || len(c.Warnings) > 0 || c.Listen.Port != 7081 {
					t.Errorf("error %v, warnings %q, port %d, of\n%s", err, c.Warnings, c.Listen.Port, text)
				}
			}
		})
	}
}

// hangVariable says which loop of this process is to hang, and at the how manieth piece of its work,
// as in "workers:2".
const hangVariable = "TEST_HANGS"

// hangPulse makes a pulse whose loop hangs where a test says so.
func hangPulse(name string, loop *pulse.Loop) jobnet.Pulse {
	of, nth, found := strings.Cut(os.Getenv(hangVariable), ":")
	if of != name {
		return loop
	}
	n, err := strconv.ParseInt(nth, 10, 64)
	if !found || err != nil {
		panic(fmt.Sprintf("%s=%q is not LOOP:NUMBER", hangVariable, os.Getenv(hangVariable)))
	}
	hanging := &hangingPulse{Pulse: loop}
	hanging.left.Store(n)
	return hanging
}

type hangingPulse struct {
	jobnet.Pulse
	left atomic.Int64 // pieces of work until it hangs
}

// Works says so, and never comes back where it is to hang.
func (h *hangingPulse) Works() {
	h.Pulse.Works()
	if h.left.Add(-1) == 0 {
		select {}
	}
}

// The manual pages say what the help says.
func TestManualPages(t *testing.T) {
	t.Parallel()
	set := conf.New(about())
	new(check.Mode).Register(set)
	new(config).Register(set)
	manualtest.CheckKeys(t, filepath.Join("..", "..", "docs", "configuration.md"), "jobd-master", set)
	manualtest.CheckDaemon(t, filepath.Join("..", "..", "packaging", "man"), set, manualtest.Daemon{
		Name: "jobd-master", Summary: "find the workers that serve a target", Other: "jobd", Option: "--ping-interval", Prefix: about().Prefix,
		Description: []string{
			about().Summary + " Workers register with it, each with its targets; an application pokes the master when it has made a row, " +
				"and the master has the workers of that target look for it. jobctl --master asks all workers at once through it. It keeps nothing on disk.",
		},
		Signals: []layout.Term{
			{Name: "SIGTERM, SIGINT", Meaning: "End. Workers go on with what they do, and register again when a master is back."},
			{Name: "SIGHUP", Meaning: "Read the file again and take over the log levels; open the log anew."},
		},
		Example: []string{"host = 0.0.0.0", "port = 7081", `password = "secret"`},
	})
}

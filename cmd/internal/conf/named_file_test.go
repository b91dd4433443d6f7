package conf_test

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	absent := filepath.Join(t.TempDir(), "absent.conf")
	folder := t.TempDir()
	for name, test := range map[string]struct {
		standard string
		args     []string
		environ  []string
		want     string
	}{
		"no default file is no error":      {standard: absent},
		"no default file at all":           {},
		"an absent file by flag":           {args: []string{"--config", absent}, want: "config " + absent + ": no such file"},
		"an absent file by the variable":   {environ: []string{"TESTD_CONFIG=" + absent}, want: "config " + absent + ": no such file"},
		"an absent file by flag, default":  {standard: absent, args: []string{"--config", absent}, want: "config " + absent + ": no such file"},
		"a folder":                         {args: []string{"--config", folder}, want: "config " + folder + ": it is not a regular file; allowed: one"},
		"a key in the place of a flag":     {args: []string{"--mysql_host=hunter2"}, want: "unknown flag --mysql_host; the nearest known one is --mysql-host"},
		"unknown flag":                     {args: []string{"--mysql-hots=x"}, want: "unknown flag --mysql-hots; the nearest known one is --mysql-host"},
		"flag without its value":           {args: []string{"--port"}, want: "flag needs an argument: -port"},
		"an argument that is no flag":      {args: []string{"start"}, want: `unexpected argument in place 1 of the command line; testd takes flags only, see --help`},
		"a family's flag without a member": {args: []string{"--launcher.env.=x"}, want: "unknown flag --launcher.env.; the nearest known one is --launcher.env.NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, _ := newSet(test.standard)
			err := set.Parse(test.args, test.environ, t.Output())
			if err == nil {
				err = set.Err()
			}
			if test.want == "" {
				if err != nil {
					t.Errorf("error %v, want none", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || exit.Code(err) != exit.Usage {
				t.Errorf("error %v with exit code %d, want %q with %d", err, exit.Code(err), test.want, exit.Usage)
			}
		})
	}
}

// A daemon listens somewhere: at host and port, on a socket, or both.
func TestListenUnix(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--listen-unix=/run/s":                     "",
		"--listen-unix=/run/s --host=::1 --port=1": "",
		"":                                "host: required; give it as --host or as HOST\nport: required",
		"--listen-unix=":                  "host: required",
		"--listen-unix=/run/s --port=1":   "host: required",
		"--listen-unix=/run/s --host=::1": "port: required",
		"--listen-unix=s":                 "the absolute path of a unix socket, of at most 107 bytes",
		"--listen-unix=/" + strings.Repeat("x", 107):  "the absolute path of a unix socket, of at most 107 bytes",
		"--listen-unix=/" + strings.Repeat("x", 106):  "",
		"--listen-unix=/run/s --http-listen=/run/s":   "http_listen: listen_unix is the same",
		"--listen-unix=/run/s --http-listen=/run/s.2": "",
	} {
		set := conf.New(conf.Program{})
		var l conf.Listen
		var h conf.HTTP
		l.Register(set)
		h.Register(set)
		if err := set.Parse(strings.Fields(args), nil, io.Discard); err != nil {
			t.Fatal(err)
		}
		l.Validate(set)
		h.Validate(set, &l)
		if err := set.Err(); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// An error repeats a value that can't be decoded, so that the slip is seen, unless a password is in
// it: that of a password's key, or one that was given under a wrong key, too.
func TestErrorsRepeatNoPassword(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args, environ []string
		file, want    string
	}{
		"a slip":                          {args: []string{"--port=7o80"}, want: `flag --port: port: "7o80" is not allowed`},
		"the password as the port":        {args: []string{"--port=hunter2"}, environ: []string{"TESTD_PASSWORD=hunter2"}, want: "flag --port: port: its value is not allowed"},
		"the password behind the port":    {file: "password = hunter2\nport = 80hunter2\n", want: ":2: port: its value is not allowed"},
		"another one than the password":   {file: "password = other\nport = eighty\n", want: `:2: port: "eighty" is not allowed`},
		"an empty password":               {file: "password =\nport = eighty\n", want: `:2: port: "eighty" is not allowed`},
		"a job's token as a word":         {file: "launcher.env.API_TOKEN = hunter2\nmode = hunter2\n", want: ":2: mode: its value is not allowed"},
		"a section's line":                {file: "[targets]\npasswort = hunter2\n", want: ":2: targets.passwort: its value is not allowed"},
		"an address with a password":      {args: []string{"--port=u:hunter2@db"}, want: "flag --port: port: its value is not allowed"},
		"more than anybody mistypes once": {args: []string{"--port=" + strings.Repeat("hunter2", 10)}, want: "flag --port: port: its value is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, _ := newSet(writeFile(t, test.file))
			if err := set.Parse(test.args, test.environ, t.Output()); err != nil {
				t.Fatal(err)
			}
			said := fmt.Sprint(set.Err(), set.Warnings())
			if !strings.Contains(said, test.want) || strings.Contains(said, "hunter2") {
				t.Errorf("told is %s; want %q", said, test.want)
			}
		})
	}
}

// What is said of TLS without TLS is a mistake, not a connection in clear text; and so is a half of a pair.
func TestHalfOfTheSettings(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--tls=verify": "",
		"--tls=verify --tls-ca=ca --tls-cert=c --tls-key=k": "",
		"--tls=off --tls-ca=ca":                             "", // whoever turns it off for once need not take all of it back
		"--tls-ca=ca":                                       "tls_ca: there is no TLS without tls = verify",
		"--tls-name=master.example":                         "tls_name: there is no TLS without tls = verify",
		"--tls-cert=c --tls-key=k":                          "tls_key: there is no TLS without tls = verify",
		"--tls=verify --tls-key=k":                          "tls_cert: required for TLS",
		"--tls=verify --tls-cert=c":                         "tls_key: required for TLS",
	} {
		set := conf.New(conf.Program{})
		var trust conf.Trust
		trust.Register(set, "", "somebody", true, false)
		if err := set.Parse(strings.Fields(args), nil, io.Discard); err != nil {
			t.Fatal(err)
		}
		trust.Validate(set, "")
		if err := set.Err(); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// Nor does a daemon offer TLS with a half of what it takes.
func TestHalfOfWhatADaemonOffers(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                           "",
		"--tls=off":                  "",
		"--tls-cert=c --tls-key=k":   "",
		"--tls-cert=c":               "tls_key: required for TLS",
		"--tls-key=k":                "tls_cert: required for TLS",
		"--tls=off --tls-cert=c":     "tls_key: required for TLS",
		"--tls=allow":                "tls_cert: required for tls = allow",
		"--tls=require":              "tls_cert: required for tls = require",
		"--tls-client-ca=ca":         "tls_cert: required for tls_client_ca",
		"--tls=require --tls-cert=c": "tls_key: required for TLS",
	} {
		set := conf.New(conf.Program{})
		var l conf.Listen
		l.Register(set)
		if err := set.Parse(strings.Fields("--listen-unix=/run/s "+args), nil, io.Discard); err != nil {
			t.Fatal(err)
		}
		l.Validate(set)
		if err := set.Err(); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// check runs decode, which fills field, on each text; a nil value is one that must be refused.
func check[T comparable](t *testing.T, decode conf.Decode, field *T, values map[string]any) {
	t.Helper()
	for text, want := range values {
		before := *field
		err := decode(text)
		if _, odd := err.(conf.Odd); odd {
			err = nil // taken
		}
		switch {
		case want == nil && err == nil:
			t.Errorf("%q is taken as %v, want an error", text, *field)
		case want == nil && *field != before:
			t.Errorf("%q is refused, and yet the field is %v", text, *field)
		case want != nil && err != nil:
			t.Errorf("%q is refused: %v", text, err)
		case want != nil && *field != want:
			t.Errorf("%q is %v, want %v", text, *field, want)
		}
	}
}

func TestDecodeBool(t *testing.T) {
	t.Parallel()
	var field bool
	check(t, conf.Bool(&field), &field, map[string]any{"1": true, "true": true, "0": false, "false": false, "yes": false, "on": false, "TRUE": false, "": false, "2": false})
}

func TestDecodeInt(t *testing.T) {
	t.Parallel()
	var field int
	check(t, conf.Int(&field, 1, 65535), &field, map[string]any{"1": 1, "65535": 65535, "0": nil, "65536": nil, "-1": nil, "": nil, "1.5": nil, "0x10": nil, "5 ": nil, "99999999999999999999": nil})
	check(t, conf.Int(&field, 0, math.MaxInt), &field, map[string]any{"0": 0, "1000000": 1000000, "-1": nil})
}

func TestDecodeDuration(t *testing.T) {
	t.Parallel()
	var field time.Duration
	check(t, conf.Duration(&field, 0), &field, map[string]any{
		"0": time.Duration(0), "10": 10 * time.Second, "0.5": 500 * time.Millisecond, "500ms": 500 * time.Millisecond, "2m": 2 * time.Minute, "1h30m": 90 * time.Minute,
		"30d": 30 * 24 * time.Hour, "1.5d": 36 * time.Hour,
		"": nil, "-1": nil, "-1s": nil, "soon": nil, "d": nil, "1w": nil, "NaN": nil, "Inf": nil, "1e300": nil, "1000000d": nil,
	})
	check(t, conf.Duration(&field, time.Second), &field, map[string]any{"1": time.Second, "0.9": nil})
}

func TestDecodeSize(t *testing.T) {
	t.Parallel()
	var field int64
	check(t, conf.Size(&field, 1, 1<<30), &field, map[string]any{
		"1": int64(1), "1048576": int64(1 << 20), "16MiB": int64(16 << 20), "64 KiB": int64(64 << 10), "1MB": int64(1_000_000), "1GiB": int64(1 << 30),
		"": nil, "0": nil, "-1": nil, "2GiB": nil, "much": nil, "99999999999999999999": nil, "20EiB": nil,
	})
}

func TestDecodeOneOf(t *testing.T) {
	t.Parallel()
	var field string
	check(t, conf.OneOf(&field, "mysql", "sqlite"), &field, map[string]any{"mysql": "mysql", "sqlite": "sqlite", "": nil, "MySQL": nil, "postgres": nil})
}

func TestDecodeNonEmpty(t *testing.T) {
	t.Parallel()
	var field string
	check(t, conf.NonEmpty(&field), &field, map[string]any{"a": "a", "": nil})
}

func TestDecodeLevel(t *testing.T) {
	t.Parallel()
	var field slog.Level
	check(t, conf.Level(&field), &field, map[string]any{
		"trace": slog.Level(-8), "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError, "WARN": slog.LevelWarn,
		"": nil, "fatal": nil, "4": nil, "warn+1": nil,
	})
}

// A switch that is no original's takes the words of the specification and those of the others, and nothing else: an
// odd one is not taken for no.
func TestYesAndNo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"yes": true, "true": true, "1": true, "no": false, "false": false, "0": false} {
		got := !want
		if err := conf.YesNo(&got)(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "on", "Yes", "y", "yes please"} {
		if err := conf.YesNo(new(bool))(text); err == nil || !strings.Contains(err.Error(), "yes, no") {
			t.Errorf("%q: %v", text, err)
		}
	}
	set := conf.New(conf.Program{})
	var h conf.HTTP
	h.Register(set)
	if err := set.Parse([]string{"--http-read-only"}, nil, io.Discard); err != nil || !h.ReadOnly {
		t.Errorf("the switch alone: %v, %v", h.ReadOnly, err)
	}
}

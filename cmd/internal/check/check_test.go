package check_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/net/cert"
	"jobd/net/cert/certtest"
	"jobd/store/storetest/must"
)

func TestReport(t *testing.T) {
	t.Parallel()
	warning := check.Finding{Level: check.Warning, What: "disk", Detail: "nearly full", Remedy: "make room"}
	wrong := check.Finding{Level: check.Wrong, What: "master", Detail: "away"}
	for name, test := range map[string]struct {
		findings []check.Finding
		start    bool
		want     string
		code     int
	}{
		"a warning":               {[]check.Finding{{What: "a", Detail: "fine"}, warning}, false, "ok       a: fine\nwarning  disk: nearly full; make room\n", exit.Success},
		"something outside":       {[]check.Finding{wrong, warning}, false, "wrong    master: away\nwarning  disk: nearly full; make room\n", exit.Failure},
		"the configuration":       {[]check.Finding{wrong, {Level: check.Mistake, What: "configuration", Detail: "x"}}, false, "wrong    master: away\nwrong    configuration: x\n", exit.Usage},
		"a start goes on without": {[]check.Finding{wrong}, true, "warning  master: away\n", exit.Success},
		"a start would end":       {[]check.Finding{{Level: check.Wrong, What: "journal", Detail: "gone", Ends: true}}, true, "wrong    journal: gone\n", exit.Failure},
		"what a terminal obeys":   {[]check.Finding{{What: "server", Detail: "one\ntwo\x1b[2J"}}, false, "ok       server: one two\ufffd[2J\n", exit.Success},
	} {
		var text strings.Builder
		err := check.Report(&text, test.findings, test.start)
		if text.String() != test.want || exit.Code(err) != test.code || err == nil || err.Error() != "" {
			t.Errorf("%s: exit code %d, error %q:\n%s", name, exit.Code(err), err, &text)
		}
	}
}

// What a reading warned of stands among its mistakes, too, and in the report once.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	mistakes := errors.New("odd\nport: required\n")
	want := []check.Finding{
		{Level: check.Warning, What: "configuration", Detail: "odd"},
		{Level: check.Mistake, What: "configuration", Detail: "port: required", Ends: true},
	}
	if diff := cmp.Diff(want, check.Configuration("x.conf", []string{"odd"}, mistakes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = []check.Finding{{What: "configuration", Detail: "x.conf"}, want[0]}
	if diff := cmp.Diff(want, check.Configuration("x.conf", []string{"odd"}, nil)); diff != "" {
		t.Errorf("sound (-want +got):\n%s", diff)
	}
}

// All parts look at the same time, and are told in their order.
func TestPartsLookTogether(t *testing.T) {
	t.Parallel()
	met := make(chan struct{})
	found := check.Look([]check.Part{
		{What: "first", Look: func(context.Context) []check.Finding { <-met; return []check.Finding{{What: "first"}} }},
		{What: "second", Look: func(context.Context) []check.Finding { met <- struct{}{}; return []check.Finding{{What: "second"}} }},
	})
	if diff := cmp.Diff([]check.Finding{{What: "first"}, {What: "second"}}, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMode(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]check.Mode{
		"--check":                    {Asked: true},
		check.ForStart("[::1]:7080"): {Asked: true, Served: "[::1]:7080"},
	} {
		var m check.Mode
		set := conf.New(conf.Program{Name: "testd"})
		m.Register(set)
		if err := set.Parse([]string{arg}, nil, &strings.Builder{}); err != nil || m != want {
			t.Errorf("%s: %+v, %v", arg, m, err)
		}
	}
	for _, arg := range []string{"--check=yes", "--check=start:"} {
		set := conf.New(conf.Program{Name: "testd"})
		new(check.Mode).Register(set)
		if err := set.Parse([]string{arg}, nil, &strings.Builder{}); err == nil || exit.Code(err) != exit.Usage {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	taken := listener.Addr().String()
	for name, test := range map[string]struct {
		address, served string
		level           check.Level
		want            string
	}{
		"free":                         {"127.0.0.1:0", "", check.OK, "free"},
		"free on all addresses":        {"[::]:0", "", check.OK, "free"},
		"the worker's that goes":       {taken, taken, check.OK, "in use by the worker that restarts"},
		"another program's at a start": {taken, "127.0.0.1:1", check.Wrong, "in use by another program"},
		"of another host":              {"192.0.2.1:0", "", check.Wrong, "cannot assign"},
	} {
		mode := check.Mode{Served: test.served, Held: test.served}
		found := mode.Address(t.Context(), test.address, func() string { return "" })
		if len(found) != 1 || found[0].Level != test.level || !strings.Contains(found[0].Detail, test.want) {
			t.Errorf("%s: %+v, want %q", name, found, test.want)
		}
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
}

func TestLogFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "log")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for path, want := range map[string]string{
		file: "can be written", file + ".new": "will be made", dir: "is a directory", filepath.Join(dir, "no", "log"): "no such file", "/dev/full": "",
	} {
		found := check.LogFile(path)
		if len(found) != 1 || !strings.Contains(found[0].Detail, want) || (found[0].Level == check.Wrong) != found[0].Ends {
			t.Errorf("%s: %+v, want %q", path, found, want)
		}
	}
	if found := check.LogFile(""); found != nil {
		t.Errorf("no file: %+v", found)
	}
}

// A key that every account can read is a warning, and one that the daemon's group can read is none.
func TestAKeyThatIsOpen(t *testing.T) {
	t.Parallel()
	file, key := certtest.New(t).Issue(t, t.TempDir(), "127.0.0.1")
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		must.Do(t, os.Chmod(key, mode))
		found := check.Certificate(conf.TLS{Files: cert.Files{Cert: file, Key: key}})
		last := found[len(found)-1]
		if got := last.Level == check.Warning && strings.Contains(last.Detail, "every account of this host"); got != warned {
			t.Errorf("mode %o: warned %v: %+v", mode, got, found)
		}
	}
}

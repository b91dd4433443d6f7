package check

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/cmd/internal/conf"
	"jobd/store/storetest/must"
)

// Whoever has the address is told apart: this daemon, another one of jobd, any program.
func TestWhoHasTheAddressForHTTP(t *testing.T) {
	t.Parallel()
	tells := func(pid int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"program":"jobd","pid":%d,"ok":true}`, pid)
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	left := filepath.Join(t.TempDir(), "left")
	l := must.Get(net.Listen("unix", left))(t)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	nobody, somebody := func() string { return "" }, func() string { return "process 7" }
	for name, test := range map[string]struct {
		network, address string
		start            bool
		runs             func() string
		level            Level
		want             string
	}{
		"free":                     {"tcp", "127.0.0.1:0", false, nobody, OK, "free"},
		"the parent's, at a start": {"tcp", tells(os.Getppid()), true, nobody, OK, "in use by the worker that restarts"},
		"another's, at a start":    {"tcp", tells(1), true, nobody, Wrong, "in use by another program"},
		"the running daemon's":     {"tcp", tells(1), false, somebody, OK, "in use by process 7"},
		"another daemon's":         {"tcp", tells(77), false, nobody, Warning, "in use by jobd, process 77"},
		"another program's":        {"tcp", other.Listener.Addr().String(), false, somebody, Wrong, "in use by another program"},
		"no host":                  {"tcp", "host.invalid:1", false, nobody, Wrong, "host.invalid"},
		"a socket that is to be":   {"unix", filepath.Join(t.TempDir(), "s"), false, nobody, OK, "free"},
		"one that was left":        {"unix", left, false, nobody, OK, "free"},
		"no folder":                {"unix", filepath.Join(t.TempDir(), "no", "s"), false, nobody, Wrong, "no such file"},
		"a file":                   {"unix", file, false, nobody, Wrong, "is no socket"},
	} {
		got := HTTP(context.Background(), conf.HTTP{Network: test.network, Address: test.address}, test.start, test.runs)
		if len(got) != 1 || got[0].Level != test.level || got[0].Ends != (test.level == Wrong) || !strings.Contains(got[0].Detail, test.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Whoever answers as a Gearman server has the address: the worker that makes room for this start, or another program.
func TestWhoHasTheAddressForGearman(t *testing.T) {
	t.Parallel()
	nobody := func() string { return "" }
	tells := func(pid int) conf.HTTP {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
				fmt.Fprintf(conn, "OK %d\n", pid)
				conn.Close()
			}
		}()
		return conf.HTTP{Network: "tcp", Address: l.Addr().String()}
	}
	for name, test := range map[string]struct {
		at    conf.HTTP
		start bool
		level Level
		want  string
	}{
		"free":                     {conf.HTTP{Network: "tcp", Address: "127.0.0.1:0"}, false, OK, "free"},
		"the parent's, at a start": {tells(os.Getppid()), true, OK, "in use by the worker that restarts"},
		"another's, at a start":    {tells(1), true, Wrong, "in use by another program"},
		"another program's":        {tells(os.Getpid()), false, Wrong, "in use by another program"},
		"no folder":                {conf.HTTP{Network: "unix", Address: filepath.Join(t.TempDir(), "no", "s")}, false, Wrong, "no such file"},
	} {
		got := Gearman(context.Background(), test.at, test.start, nobody)
		if len(got) != 1 || got[0].Level != test.level || got[0].Ends != (test.level == Wrong) || !strings.Contains(got[0].Detail, test.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

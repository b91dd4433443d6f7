package check

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/cmd/internal/conf"
	"jobd/store/storetest/must"
)

// An address that is in use may be the running worker's, which makes room on all that it holds, or
// another program's.
func TestWhoHasTheAddressForHTTP(t *testing.T) {
	t.Parallel()
	other := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = other.Close() })
	taken := other.Addr().String()
	_, port, _ := net.SplitHostPort(taken)
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	left := filepath.Join(t.TempDir(), "left")
	l := must.Get(net.Listen("unix", left))(t)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	nobody, somebody := func() string { return "" }, func() string { return "process 7" }
	const served = "127.0.0.1:1"
	for name, test := range map[string]struct {
		network, address string
		mode             Mode
		runs             func() string
		level            Level
		want             string
	}{
		"free":                       {"tcp", "127.0.0.1:0", Mode{}, nobody, OK, "free"},
		"held, at a start":           {"tcp", taken, Mode{Served: served, Held: served + ",/run/s," + taken}, nobody, OK, "in use by the worker that restarts"},
		"held on another host":       {"tcp", taken, Mode{Served: served, Held: served + ",[::]:" + port}, nobody, OK, "in use by the worker that restarts"},
		"not held, at a start":       {"tcp", taken, Mode{Served: served, Held: served}, somebody, Wrong, "in use by another program"},
		"of an older one":            {"tcp", taken, Mode{Served: served}, nobody, Warning, "perhaps"},
		"while a worker runs":        {"tcp", taken, Mode{}, somebody, OK, "in use by process 7"},
		"while none is known to run": {"tcp", taken, Mode{}, nobody, Warning, "in use by a daemon of jobd, perhaps"},
		"no host":                    {"tcp", "host.invalid:1", Mode{}, nobody, Wrong, "host.invalid"},
		"a socket that is to be":     {"unix", filepath.Join(t.TempDir(), "s"), Mode{}, nobody, OK, "free"},
		"one that was left":          {"unix", left, Mode{}, nobody, OK, "free"},
		"no folder":                  {"unix", filepath.Join(t.TempDir(), "no", "s"), Mode{}, nobody, Wrong, "no such file"},
		"a file":                     {"unix", file, Mode{}, nobody, Wrong, "is no socket"},
	} {
		got := test.mode.HTTP("http_listen", conf.HTTP{Network: test.network, Address: test.address}, test.runs)
		if len(got) != 1 || got[0].Level != test.level || got[0].Ends != (test.level == Wrong) || !strings.Contains(got[0].Detail, test.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

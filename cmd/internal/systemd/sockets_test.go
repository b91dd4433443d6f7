package systemd

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"jobd/store/storetest/must"
)

// What is no unix socket that listens is refused, whoever gives it.
func TestOnlyUnixSocketsAreTaken(t *testing.T) {
	t.Parallel()
	tcp := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer tcp.Close()
	unix := must.Get(net.Listen("unix", filepath.Join(t.TempDir(), "s")))(t)
	defer unix.Close()
	file := must.Get(os.Open(os.DevNull))(t)
	defer file.Close()
	good := must.Get(unix.(*net.UnixListener).File())(t)
	defer good.Close()
	bad := must.Get(tcp.(*net.TCPListener).File())(t)
	defer bad.Close()
	for _, test := range []struct {
		given []*os.File
		want  string // "": they are taken
	}{
		{[]*os.File{good}, ""},
		{[]*os.File{bad}, "descriptor 3, given by LISTEN_FDS: it has the address 127.0.0.1:"},
		{[]*os.File{file}, "socket operation on non-socket"},
		{[]*os.File{good, file}, "descriptor 4, given by LISTEN_FDS: "},
	} {
		taken, err := (&Manager{sockets: test.given}).Sockets()
		for _, listener := range taken {
			listener.(*net.UnixListener).SetUnlinkOnClose(false)
			listener.Close()
		}
		if (test.want == "") != (err == nil) || err != nil && (taken != nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%d taken, %v; want %q", len(taken), err, test.want)
		}
	}
}

// A number of given sockets that no manager gives costs no memory, and is told.
func TestTooManyGivenSockets(t *testing.T) {
	t.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	for _, given := range []string{"65", "1000000000"} {
		t.Setenv("LISTEN_FDS", given)
		var said bytes.Buffer
		m := Find(slog.New(slog.NewTextHandler(&said, nil)))
		if len(m.sockets) > 0 || !strings.Contains(said.String(), "they are too many") || !strings.Contains(said.String(), "given="+given+" allowed=64") {
			t.Errorf("%s: %d are taken, said %q", given, len(m.sockets), said.String())
		}
	}
}

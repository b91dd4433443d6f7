package systemd

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// deafManager listens on a socket whose queue is full.
func deafManager(t *testing.T) *net.UnixConn {
	t.Helper()
	at := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	conn := must.Get(net.ListenUnixgram(at.Net, at))(t)
	t.Cleanup(func() { conn.Close() })
	t.Setenv(socketVariable, at.Name)
	for full := false; !full; { // each sender may have so much under way; the queue has room for many
		sender := must.Get(net.DialUnix(at.Net, nil, at))(t)
		defer sender.Close() // what it sent stays in the queue
		for n := 0; ; n++ {
			_ = sender.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			if _, err := sender.Write([]byte("X=1")); err != nil {
				full = n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
				break
			}
		}
	}
	return conn
}

// hear gives the messages that are there, but for those that filled the queue.
func hear(t *testing.T, conn *net.UnixConn) (messages []string) {
	t.Helper()
	buffer := make([]byte, 4096)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, err := conn.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return messages
		} else if err != nil {
			t.Fatal(err)
		}
		if text := string(buffer[:n]); text != "X=1" {
			messages = append(messages, text)
		}
	}
}

// A service manager that takes no messages holds up neither the start nor a reload nor the end of a
// daemon. When it takes some again, it hears how the daemon stands by then.
func TestAManagerThatTakesNothing(t *testing.T) {
	conn := deafManager(t)
	m := Find(slog.New(slog.DiscardHandler))
	reloaded := false
	lived := make(chan struct{})
	go func() {
		defer close(lived)
		m.Begin()
		m.Status("starting: reading the journal")
		m.Ready()
		m.Reload(func() { reloaded = true })
		m.Status("targets: 1")
	}()
	select {
	case <-lived:
	case <-time.After(time.Minute):
		t.Fatal("it waits for the service manager")
	}
	if !reloaded {
		t.Error("the configuration was not read again")
	}
	if told := hear(t, conn); len(told) > 0 {
		t.Fatalf("the queue was not full: %q", told)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	check.Do(t, m.Run(ctx, func() string { return "targets: 1" }))
	told := hear(t, conn)
	must.Equal(t, len(told), 1, "told %q", told)
	lines := strings.Split(told[0], "\n")
	slices.Sort(lines)
	check.Elements(t, lines, []string{"READY=1", "STATUS=targets: 1"}, "told")
	m.End(false)
	if told := hear(t, conn); len(told) != 1 || !strings.HasPrefix(told[0], "STOPPING=1\n") {
		t.Errorf("at the end it was told %q", told)
	}
}

// However short the watchdog is, loops get time for a piece of work, and looks leave some for it.
func TestAWatchdogThatIsTooShort(t *testing.T) {
	for wanted, limit := range map[string]time.Duration{
		"1": shortest / 2, "1000": shortest / 2, "2000000": time.Second, "60000000": 30 * time.Second,
		"9223372036854775807": 0,
	} {
		t.Setenv(socketVariable, "/nowhere")
		t.Setenv("WATCHDOG_USEC", wanted)
		var log strings.Builder
		m := Find(slog.New(slog.NewTextHandler(&log, nil)))
		if m.Limit() != limit || strings.Contains(log.String(), "WatchdogSec") != (limit == shortest/2) {
			t.Errorf("a watchdog of %s µs: a limit of %v, want %v; the log: %s", wanted, m.Limit(), limit, log.String())
		}
	}
}

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
		if len(m.sockets) > 0 || !strings.Contains(said.String(), "too many sockets") || !strings.Contains(said.String(), "given="+given+" allowed=64") {
			t.Errorf("%s: %d are taken, said %q", given, len(m.sockets), said.String())
		}
	}
}

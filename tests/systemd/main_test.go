package systemd

import (
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// These tests wait more than they work: many do so at once.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	harness.Main(m)
}

// manager is what a daemon's NOTIFY_SOCKET leads to.
type manager struct {
	t        *testing.T
	path     string
	watchdog time.Duration // 0: it wants no signs of life

	mu   sync.Mutex
	said []string // each message, its lines in one
}

// newManager listens until the test ends.
func newManager(t *testing.T, watchdog time.Duration) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	m := &manager{t: t, path: filepath.Join(dir, "s"), watchdog: watchdog}
	socket := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"}))(t)
	over := make(chan struct{})
	go func() {
		defer close(over)
		message := make([]byte, 64<<10)
		for {
			n, err := socket.Read(message)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.said = append(m.said, string(message[:n]))
			m.mu.Unlock()
		}
	}()
	t.Cleanup(func() { socket.Close(); <-over; os.RemoveAll(dir) })
	return m
}

// launch starts a program's file as systemd does.
func (m *manager) launch(binary string, s harness.Settings) *harness.Daemon {
	m.t.Helper()
	variables := "NOTIFY_SOCKET=" + m.path
	if m.watchdog > 0 {
		variables += fmt.Sprintf(" WATCHDOG_PID=$$ WATCHDOG_USEC=%d", m.watchdog.Microseconds())
	}
	return harness.LaunchBinary(m.t, harness.Script(m.t, variables+" exec "+binary+` "$@"`), s.Write(m.t), s.Addr())
}

// messages are those that came, from one on.
func (m *manager) messages(from int) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.said[from:]...)
}

// await waits for a message with a line that begins so, from one on, and gives it and where the next
// one is.
func (m *manager) await(from int, line string) (message string, next int) {
	m.t.Helper()
	harness.Until(m.t, func() string {
		for i, said := range m.messages(from) {
			if strings.HasPrefix(said, line) || strings.Contains(said, "\n"+line) {
				message, next = said, from+i+1
				return ""
			}
		}
		return fmt.Sprintf("no %q among what was said: %q", line, m.messages(from))
	})
	return message, next
}

// alive waits for signs of life, so many from now on.
func (m *manager) alive(signs int) {
	m.t.Helper()
	from := len(m.messages(0))
	for range signs {
		_, from = m.await(from, "WATCHDOG=1")
	}
}

// hung are the messages that tell of a loop that stands still.
func (m *manager) hung() (told []string) {
	for _, said := range m.messages(0) {
		if strings.Contains(said, "STATUS=hangs") {
			told = append(told, said)
		}
	}
	return told
}

// gated is a launcher whose jobs run until it is opened.
func gated(t *testing.T) (command, running string, open func()) {
	t.Helper()
	dir := t.TempDir()
	script := harness.Script(t, fmt.Sprintf(`touch %[1]s/running; until test -e %[1]s/open; do sleep 0.2; done; env`, dir))
	return script + " {id}", filepath.Join(dir, "running"), func() { harness.Touch(t, filepath.Join(dir, "open")) }
}

package systemd

import (
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// How long the service manager may take for a message: no start, no reload and no stop waits for one
// that does not listen. Of one that was slow, the next messages wait for a moment only.
const (
	patience     = time.Second
	slowPatience = 10 * time.Millisecond
)

// say tells the service manager something, in one message with what it is owed. What it does not
// take in time, or can't be told, it is owed as far as that still counts by then.
func (m *Manager) say(lines ...string) {
	if !m.listens {
		return
	}
	m.telling.Lock()
	defer m.telling.Unlock()
	m.tell(strings.Split(strings.Join(lines, "\n"), "\n"))
}

// sayOwed tells it only what it is owed.
func (m *Manager) sayOwed() {
	m.telling.Lock()
	defer m.telling.Unlock()
	if len(m.owed) > 0 {
		m.tell(nil)
	}
}

// tell sends one message. Callers must hold m.telling.
func (m *Manager) tell(lines []string) {
	lines = append(outstanding(m.owed, lines), lines...)
	wait := patience
	if m.slow {
		wait = slowPatience
	}
	err := send(strings.Join(lines, "\n"), wait)
	m.slow, m.owed = err != nil, nil
	if err != nil {
		m.owed = slices.DeleteFunc(lines, func(line string) bool { return !lasts(line) })
		m.deaf.Do(func() { m.log.Warn("the service manager can't be told how this daemon stands", "error", err) })
	}
}

// send sends a message to the socket that the environment names.
func send(message string, within time.Duration) error {
	to := &net.UnixAddr{Name: os.Getenv(socketVariable), Net: "unixgram"}
	conn, err := net.DialUnix(to.Net, nil, to)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(message))
	return err
}

// outstanding are the lines that are owed and that later ones do not make untrue.
func outstanding(owed, later []string) []string {
	return slices.DeleteFunc(slices.Clone(owed), func(line string) bool {
		return slices.ContainsFunc(later, func(after string) bool { return lasts(after) && isStatus(after) == isStatus(line) })
	})
}

// lasts tells whether a line says how the daemon stands, until another one does. Signs of life, and
// the wish for more time, are of the moment.
func lasts(line string) bool {
	return isStatus(line) || line == daemon.SdNotifyReady || line == daemon.SdNotifyReloading || line == daemon.SdNotifyStopping ||
		strings.HasPrefix(line, "MONOTONIC_USEC=")
}

func isStatus(line string) bool { return strings.HasPrefix(line, "STATUS=") }

package systemd

import (
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// How long the service manager may take for a message: no start, no reload and no stop waits for one
// that does not listen. Of one that was slow, the next messages wait for a moment only.
const (
	patience     = time.Second
	slowPatience = 10 * time.Millisecond
)

// say tells the service manager how the daemon stands, as far as that is news, and lines that count for
// the moment only. If it could not be told the last time, it hears all again that still counts.
func (m *Manager) say(phase, status string, moment ...string) {
	if !m.listens {
		return
	}
	m.telling.Lock()
	defer m.telling.Unlock()
	m.tell(phase, status, moment...)
}

// sayOwed tells it only what it could not be told.
func (m *Manager) sayOwed() {
	m.telling.Lock()
	defer m.telling.Unlock()
	if m.owed {
		m.tell("", "")
	}
}

// tell sends one message. Callers must hold m.telling.
func (m *Manager) tell(phase, status string, moment ...string) {
	if phase != "" {
		m.phase = phase
	}
	if status != "" {
		m.words = statusLine(status)
	}
	wait := patience
	lines := slices.Concat([]string{phase}, moment, []string{statusLine(status)})
	if m.owed {
		wait = slowPatience
		lines = slices.Concat([]string{m.phase}, moment, []string{m.words})
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	err := send(strings.Join(lines, "\n"), wait)
	m.owed = err != nil
	if err != nil {
		m.deaf.Do(func() { m.log.Warn("systemd can't be told this daemon's state", "error", err) })
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

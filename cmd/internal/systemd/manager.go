package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"jobd/cmd/internal/pulse"
)

// Manager is the service manager that started this process, if one did that wants to be told. Its
// methods are safe for concurrent use, and do nothing where nobody listens.
type Manager struct {
	log      *slog.Logger
	sockets  []*os.File // that it made; no child inherits them
	listens  bool
	watchdog time.Duration // within which it wants a sign of life; 0: it wants none
	begun    chan struct{} // closed when the start is over
	over     sync.Once     // closes it
	deaf     sync.Once     // it was logged that the manager can't be told

	telling sync.Mutex // orders messages
	phase   string     // lines that say whether the daemon serves
	words   string     // the line of its status
	owed    bool       // the last message could not be told

	mu     sync.Mutex
	ending bool
	hangs  string // what stands still, in words; "": nothing
	status string // that was told last
}

// Find looks in the environment for the service manager. Jobs and other children must not inherit
// what it finds there, see IsOwn.
func Find(log *slog.Logger) *Manager {
	m := &Manager{log: log, listens: os.Getenv(socketVariable) != "", begun: make(chan struct{})}
	if n, _ := strconv.Atoi(os.Getenv("LISTEN_FDS")); n <= mostSockets {
		m.sockets = activation.Files(false)
	} else {
		log.Error("LISTEN_FDS has too many sockets, and none is used; leave fewer in the socket unit", "given", n, "allowed", mostSockets)
	}
	if !m.listens {
		return m
	}
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the watchdog time of systemd can't be read; it gets no watchdog pings", "error", err)
	}
	if m.watchdog = max(0, watchdog); m.watchdog > 0 && m.watchdog < shortest { // beyond all time it is as good as none
		log.Warn("WatchdogSec is so short that the daemon would seem to hang on a busy host; make it longer",
			"wanted", watchdog, "at least", shortest)
		m.watchdog = shortest
	}
	return m
}

// mostSockets is how many sockets a service manager may give.
const mostSockets = 64

// The variables that are for one process alone.
const socketVariable = "NOTIFY_SOCKET"

// IsOwn tells whether a variable, as of os.Environ, is the service manager's word to this process,
// and not to those that it starts.
func IsOwn(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains([]string{socketVariable, "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}, name)
}

// Sockets are the unix sockets that the service manager has made for this process to listen on.
func (m *Manager) Sockets() (listeners []net.Listener, err error) {
	for i, file := range m.sockets {
		listener, err := net.FileListener(file) // the file stays, for HandOn
		if err == nil && listener.Addr().Network() != "unix" {
			err = errors.New("it has the address " + listener.Addr().String())
		}
		if err != nil { // which ends the start, and all of them with it
			return nil, fmt.Errorf("descriptor %d, given by LISTEN_FDS: %w; allowed: unix sockets that listen, as ListenStream=/run/… of a socket unit makes them", firstSocket+i, err)
		}
		listeners = append(listeners, listener)
	}
	return listeners, nil
}

// firstSocket is the descriptor of the first one.
const firstSocket = 3

// HandOn leaves the sockets to the program that this process is about to execute, with what the
// environment says of them. Whoever connects meanwhile waits in their queues.
func (m *Manager) HandOn() {
	for i := range m.sockets {
		_, _ = unix.FcntlInt(uintptr(firstSocket+i), unix.F_SETFD, 0) // it is open, so this can't fail
	}
}

const (
	moreTime  = 30 * time.Second // that is asked for at a time
	askedEach = 5 * time.Second
)

// shortest is the shortest watchdog that is gone by. For a shorter one signs of life come as for this.
const shortest = time.Second

// Limit is for how long a loop may be at one piece of work, so that the watchdog is told in time; 0:
// there is no watchdog.
func (m *Manager) Limit() time.Duration { return min(m.watchdog/2, moreTime) }

// Begin says that the daemon starts, and asks for more time until it serves or ends. A daemon that
// starts again in the same process is watched already, and gives signs of life meanwhile.
func (m *Manager) Begin() {
	if !m.listens {
		return
	}
	m.say("", "starting", m.extended())
	go func() {
		each := askedEach
		if m.watchdog > 0 {
			each = min(each, m.watchdog/4)
		}
		again := time.NewTicker(each)
		defer again.Stop()
		for {
			select {
			case <-m.begun:
				return
			case <-again.C:
				m.say("", "", m.extended())
			}
		}
	}()
}

// Close says nothing more of a start that did not come to an end.
func (m *Manager) Close() { m.over.Do(func() { close(m.begun) }) }

// Ready says that the daemon serves.
func (m *Manager) Ready() {
	m.Close()
	m.say(daemon.SdNotifyReady, "serving")
}

// Reload says that the daemon reads its configuration again, while it does. One that ends says no
// more than that.
func (m *Manager) Reload(reload func()) {
	if m.ends() {
		reload()
		return
	}
	m.say(reloading(), "")
	defer m.say(daemon.SdNotifyReady, "")
	reload()
}

// End says that the daemon ends, or starts again in this process.
func (m *Manager) End(again bool) {
	m.mu.Lock()
	m.ending = true
	m.mu.Unlock()
	if again {
		m.say(reloading(), "restarting", m.extended())
		return
	}
	m.say(daemon.SdNotifyStopping, "stopping", m.extended())
}

func reloading() string {
	return daemon.SdNotifyReloading + "\n" + strings.TrimSpace(daemon.SdNotifyMonotonicUsec())
}

// Look is for a pulse to call after each look: where all loops turn that is a sign of life, and asks
// for more time where the daemon ends.
func (m *Manager) Look(p *pulse.Pulse) {
	still := p.Still()
	m.mu.Lock()
	m.hangs = standstill(still)
	m.mu.Unlock()
	switch {
	case len(still) > 0:
		m.Status("")
	case m.ends():
		m.say("", "", m.extended())
	case m.watchdog > 0:
		m.say("", "", daemon.SdNotifyWatchdog)
	}
}

// ends tells whether the daemon ends, or starts again.
func (m *Manager) ends() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ending
}

// standstill is the status while loops stand still; "" while none does.
func standstill(still []pulse.Still) string {
	if len(still) == 0 {
		return ""
	}
	names := make([]string, len(still))
	for i, loop := range still {
		names[i] = loop.Loop
	}
	return fmt.Sprintf("hangs since %s: %s", still[0].Since.Format(time.TimeOnly), strings.Join(names, ", "))
}

// Status says in words how the daemon stands, where that has changed. That it hangs goes before.
func (m *Manager) Status(words string) {
	m.mu.Lock()
	words = cmp.Or(m.hangs, words)
	news := m.listens && words != m.status
	m.status = words
	m.mu.Unlock()
	if news {
		m.say("", words)
	}
}

// Run says every few seconds how the daemon stands, until ctx ends, and returns nil.
func (m *Manager) Run(ctx context.Context, describe func() string) error {
	if !m.listens {
		<-ctx.Done()
		return nil
	}
	again := time.NewTicker(askedEach)
	defer again.Stop()
	for {
		if words := describe(); !m.ends() {
			m.Status(words)
		}
		m.sayOwed()
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

// extended asks for more time, and is a sign of life.
func (m *Manager) extended() string {
	more := fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", moreTime.Microseconds())
	if m.watchdog > 0 {
		more += "\n" + daemon.SdNotifyWatchdog
	}
	return more
}

// mostStatus is how many bytes of a status are told.
const mostStatus = 500

// statusLine is a status as the service manager is told; "": there is none.
func statusLine(words string) string {
	words = strings.Join(strings.Fields(words), " ")
	if words == "" {
		return ""
	}
	if len(words) > mostStatus {
		words = strings.ToValidUTF8(words[:mostStatus], "") + "…"
	}
	return "STATUS=" + words
}

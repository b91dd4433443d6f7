package time

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// ownServer starts a database server of the test's own.
func ownServer(t *testing.T) *dbserver.Server { return startServer(t, dbserver.Options{}) }

// clockServer starts one whose clock can be set.
func clockServer(t *testing.T) *dbserver.Server {
	t.Helper()
	if os.Getenv("JOBD_TEST_MYSQL_ROOT") != "" {
		t.Skip("only MariaDB's clock can be set")
	}
	return startServer(t, dbserver.Options{Clock: true})
}

func startServer(t testing.TB, options dbserver.Options) *dbserver.Server {
	t.Helper()
	server := must.Get(dbserver.Start(context.Background(), options))(t)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// awaitMachine waits until the machine's clock says a time.
func awaitMachine(t testing.TB, at int64) {
	t.Helper()
	harness.Until(t, func() string {
		if now := time.Now().Unix(); now < at {
			return fmt.Sprintf("it is %d, not %d", now, at)
		}
		return ""
	})
}

// pid is a process's number, from a file in the oracle's folder; 0 while it is not there.
func (s *site) pid(name string) (pid int) {
	content, err := os.ReadFile(filepath.Join(s.oracle.dir, name))
	if err != nil {
		return 0
	}
	_, _ = fmt.Sscan(string(content), &pid) // it may be empty for a moment
	return pid
}

// alive tells whether a process is there, and no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// deadline is how long a condition may take to come true, and when to look again.
type deadline struct {
	over *time.Timer
	tick *time.Ticker
}

func newDeadline() deadline {
	return deadline{time.NewTimer(harness.Patience), time.NewTicker(20 * time.Millisecond)}
}

// again waits for the next look; it is false when the time is over.
func (d deadline) again() bool {
	select {
	case <-d.tick.C:
		return true
	case <-d.over.C:
		return false
	}
}

func (d deadline) stop() {
	d.over.Stop()
	d.tick.Stop()
}

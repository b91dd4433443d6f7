package time

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

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

// pid is a process's number, from a file in the oracle's folder; 0 while it is not there.
func (s *site) pid(name string) (pid int) {
	content, err := os.ReadFile(filepath.Join(s.oracle.dir, name))
	if err != nil {
		return 0
	}
	_, _ = fmt.Sscan(string(content), &pid) // it may be empty for a moment
	return pid
}

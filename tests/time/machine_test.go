package time

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"jobd/store/storetest/dbserver"
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

func startServer(t *testing.T, options dbserver.Options) *dbserver.Server {
	t.Helper()
	server, err := dbserver.Start(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// awaitMachine waits until the machine's clock says a time.
func awaitMachine(t *testing.T, at int64) {
	t.Helper()
	harness.Until(t, func() string {
		if now := time.Now().Unix(); now < at {
			return fmt.Sprintf("it is %d, not %d", now, at)
		}
		return ""
	})
}

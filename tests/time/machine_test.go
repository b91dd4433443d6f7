package time

import (
	"context"
	"os"
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

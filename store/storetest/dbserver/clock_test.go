package dbserver

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// The server tells the time that it is set to, on connections that are there already, too; what waits
// is not hurried.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	if os.Getenv(rootVariable) != "" {
		t.Skip("only MariaDB's clock can be set")
	}
	server, err := Start(t.Context(), Options{Clock: true})
	if err != nil {
		t.Fatal(err)
	}
	pid := server.process.command.Process.Pid
	server.Admin().SetMaxOpenConns(1)
	for _, ahead := range []time.Duration{0, 400 * 24 * time.Hour, time.Hour, -30 * 24 * time.Hour} {
		if err := server.SetClock(ahead); err != nil {
			t.Fatal(err)
		}
		var told int64
		if err := server.Admin().QueryRow("SELECT UNIX_TIMESTAMP()").Scan(&told); err != nil {
			t.Fatal(err)
		}
		if off := time.Until(time.Unix(told, 0)) - ahead; off.Abs() > time.Minute {
			t.Errorf("set %s ahead, the server's clock is %s off", ahead, off)
		}
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("/dev/shm/faketime_shm_" + strconv.Itoa(pid)); err == nil {
		t.Error("shared memory is left behind")
	}
}

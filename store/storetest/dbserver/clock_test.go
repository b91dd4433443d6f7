package dbserver

import (
	"os"
	"strconv"
	"testing"
	"time"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// The server tells the time that it is set to, on connections that are there already, too; what waits
// is not hurried.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	if os.Getenv(rootVariable) != "" {
		t.Skip("only MariaDB's clock can be set")
	}
	server := must.Get(Start(t.Context(), Options{Clock: true}))(t)
	pid := server.process.command.Process.Pid
	server.Admin().SetMaxOpenConns(1)
	for _, ahead := range []time.Duration{0, 400 * 24 * time.Hour, time.Hour, -30 * 24 * time.Hour} {
		must.Do(t, server.SetClock(ahead))
		var told int64
		must.Do(t, server.Admin().QueryRow("SELECT UNIX_TIMESTAMP()").Scan(&told))
		if off := time.Until(time.Unix(told, 0)) - ahead; off.Abs() > time.Minute {
			t.Errorf("set %s ahead, the server's clock is %s off", ahead, off)
		}
	}
	check.Do(t, server.Close())
	if _, err := os.Stat("/dev/shm/faketime_shm_" + strconv.Itoa(pid)); err == nil {
		t.Error("shared memory is left behind")
	}
}

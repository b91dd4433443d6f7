package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"jobd/store"
	"jobd/store/internal/rule"
)

// What the servers' errors mean, those of Galera and Group Replication among them.
func TestErrorsByNumber(t *testing.T) {
	t.Parallel()
	type meaning struct{ transient, undone, lock, values, rule, dubious bool }
	cases := []struct {
		name    string
		numbers []uint16
		want    meaning
	}{
		{"deadlock, or a record that changed", []uint16{1213, 1020}, meaning{transient: true, undone: true}},
		{"lock wait", []uint16{1205, 3572}, meaning{transient: true, undone: true, lock: true}},
		{"rolled back at the commit by Group Replication", []uint16{3101}, meaning{transient: true, undone: true}},
		{"a commit that failed for who knows what: a claim is in doubt", []uint16{1180}, meaning{transient: true}},
		{"not supported: the table is asked", []uint16{1235}, meaning{dubious: true}},
		{"no such table or column, no right", []uint16{1146, 1054, 1142, 1143}, meaning{dubious: true}},
		{"read-only: another connection may do", []uint16{1290, 1792, 1836}, meaning{transient: true, dubious: true}},
		{"the server ends or is full", []uint16{1053, 1927, 4031, 1040, 1047}, meaning{dubious: true}},
		{"a query that was interrupted", []uint16{1317, 1969, 3024}, meaning{}},
		{
			"what a column or a packet cannot hold",
			[]uint16{1048, 1118, 1153, 1264, 1265, 1267, 1271, 1292, 1300, 1366, 1406, 1411, 1977, 3140, 3854},
			meaning{values: true},
		},
		{"a rule of the application's", []uint16{1062, 1169, 1442, 1451, 1452, 1644, 3819, 4025}, meaning{rule: true}},
	}
	for _, c := range cases {
		for _, number := range c.numbers {
			err := fmt.Errorf("apply: %w", &driver.MySQLError{Number: number})
			var overtook *store.Overtaken
			fault, _ := sortError(err)
			got := meaning{isTransient(err), errors.As(overtaken(err), &overtook), isLockWait(err), fault == rule.Values, fault == rule.Rule, isDubious(err)}
			if got != c.want {
				t.Errorf("%s, %d: %+v, want %+v", c.name, number, got, c.want)
			}
		}
	}
}

// A link is lost only where the network or the driver says so: that the caller's time is over, or
// that it gave up, tells nothing.
func TestLostLink(t *testing.T) {
	t.Parallel()
	dialer := net.Dialer{}
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	_, dialErr := dialer.DialContext(expired, "tcp", "127.0.0.1:1")
	cases := []struct {
		name string
		err  error
		lost bool
	}{
		{"the caller's deadline", context.DeadlineExceeded, false},
		{"the caller gave up", context.Canceled, false},
		{"a dial that took too long", dialErr, true},
		{"a read that took too long", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true},
		{"no such host", &net.DNSError{Err: "no such host"}, true},
		{"invalid connection", driver.ErrInvalidConn, true},
		{"bad connection", sqldriver.ErrBadConn, true},
		{"nonsense from the server", driver.ErrMalformPkt, true},
		{"a server's error", &driver.MySQLError{Number: 1146}, false},
		{"anything else", errors.New("x"), false},
	}
	for _, c := range cases {
		if got := lostLink(fmt.Errorf("apply: %w", c.err)); got != c.lost {
			t.Errorf("%s (%v): lost is %t", c.name, c.err, got)
		}
	}
}

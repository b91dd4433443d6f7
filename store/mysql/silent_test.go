package mysql_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
)

// silentServer is where connections are taken, and nothing is said.
func silentServer(t *testing.T) *net.TCPAddr {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().(*net.TCPAddr)
}

// expectSilent checks that an error says that the server does not answer, and that it is out of reach.
func expectSilent(t *testing.T, what string, err error) {
	t.Helper()
	if !store.IsAway(err) || unusable(err) || !strings.Contains(err.Error(), "start the server, or correct mysql_host") {
		t.Errorf("%s: %v; want to hear that the server is silent", what, err)
	}
}

// A server that takes connections and answers nothing is out of reach when the time that an answer may
// take is over.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	const never = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	config := mysql.Config{Host: "127.0.0.1", User: "u", Database: "d", ConnectTimeout: never, ReadTimeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	config.Port = silentServer(t).Port
	expectSilent(t, "a check", open(t, config).Check(ctx))
	_, err := open(t, config).Server(ctx)
	expectSilent(t, "which server it is", err)

	impatient, leave := context.WithTimeout(ctx, 500*time.Millisecond) // the dial is done by then
	defer leave()
	config.ReadTimeout = never
	if err := open(t, config).Check(impatient); !errors.Is(err, context.DeadlineExceeded) || store.IsAway(err) {
		t.Errorf("a check by somebody who does not wait: %v; want no more than that his time is over", err)
	}
}

// So is one that falls silent later: new connections find that out, those of the advisory locks too.
func TestServerThatFallsSilent(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	proxy, err := linkproxy.Start(db.server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	config := db.config()
	config.Port, config.ReadTimeout = proxy.Port(), 3*time.Second
	table := confirmed(t, open(t, config))
	proxy.Lead(silentServer(t).String())
	_, err = table.Hold(ctx, "name:x")
	if !store.IsAway(err) || !strings.Contains(err.Error(), "start the server, or correct mysql_host") {
		t.Errorf("a lock: %v; want to hear that the server is silent", err)
	}
}

// slowLink takes a while for each answer.
type slowLink struct{ net.Conn }

const slowness = 400 * time.Millisecond

// Read implements net.Conn.
func (l slowLink) Read(b []byte) (int, error) {
	<-time.After(slowness) // that is how slow it is
	return l.Conn.Read(b)
}

// Regression: what bounds a silent server bounded all answers together that make a connection: on a
// link with round trips of some seconds no connection was ever made.
func TestSlowLinkIsNoSilentServer(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	config := db.config()
	config.ReadTimeout = time.Second
	config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return slowLink{conn}, err
	}
	table, begun := open(t, config), time.Now()
	must.Get(table.Server(ctx))(t)
	if took := time.Since(begun); took < config.ReadTimeout {
		t.Fatalf("a connection was made within %s: that shows nothing", took)
	}
	if err := table.Check(ctx); err != nil {
		t.Error(err)
	}
}

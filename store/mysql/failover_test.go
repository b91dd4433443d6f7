package mysql_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

// replicated makes a primary and a replica that follows it.
func replicated(t *testing.T) (primary, replica *dbserver.Server) {
	t.Helper()
	primary = newServer(t, "--log-bin=binlog", "--server-id=1", "--binlog-format=ROW")
	replica = newServer(t, "--log-bin=binlog", "--server-id=2", "--binlog-format=ROW")
	if !primary.IsMariaDB() {
		t.Skip("the statements that set up the replica are MariaDB's")
	}
	run := func(s *dbserver.Server, query string) {
		if _, err := s.Admin().ExecContext(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	run(primary, "CREATE USER follower@'%' IDENTIFIED BY 'follower'")
	run(primary, "GRANT REPLICATION SLAVE ON *.* TO follower@'%'")
	run(replica, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='follower', "+
		"MASTER_PASSWORD='follower', MASTER_USE_GTID=slave_pos", primary.Port()))
	run(replica, "START SLAVE")
	return primary, replica
}

// catchUp waits until the replica has what the primary has.
func catchUp(t *testing.T, primary, replica *dbserver.Server) {
	t.Helper()
	var position string
	must.Do(t, primary.Admin().QueryRowContext(t.Context(), "SELECT @@gtid_binlog_pos").Scan(&position))
	var late int
	if err := replica.Admin().QueryRowContext(t.Context(), "SELECT MASTER_GTID_WAIT(?, 30)", position).Scan(&late); err != nil || late != 0 {
		t.Fatalf("the replica does not follow: %d, %v", late, err)
	}
}

// A failover to a replica that lags: 33 rows read accepted or running with our token while the
// journal said done, and no worker noticed; others that had run read waiting again, and were run
// twice. Two servers, asynchronous replication, the replica stopped before the primary is killed,
// and promoted while a worker goes on claiming.
func TestAReplicaThatLaggedTakesThePrimarysPlace(t *testing.T) {
	t.Parallel()
	primary, replica := replicated(t)
	db := newDatabaseOn(t, primary, dbserver.JobsTable)
	var address atomic.Pointer[string]
	reach := func(s *dbserver.Server) { addr := s.Addr(); address.Store(&addr) }
	reach(primary)

	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: t.TempDir()}))(t)
	t.Cleanup(func() { _ = j.Close() })
	var mirror atomic.Pointer[store.Mirror]
	config := db.config()
	config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", *address.Load())
	}
	config.OnServer = func() {
		if m := mirror.Load(); m != nil {
			m.CheckServer()
		}
	}
	table := open(t, config)
	returned := make(chan struct{}, 100)
	m := store.NewMirror(store.Config{
		Source: j, Bookmark: j, Table: table, Logger: slog.New(slog.DiscardHandler),
		OnReturn: func() { returned <- struct{}{} },
	})
	mirror.Store(m)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-returned

	var claimed []int64
	claim := func() error {
		return table.Claim(t.Context(), map[string]int{"a": 1000}, nil, func(rows []journal.Row) ([]journal.Event, error) {
			var drafts []journal.Draft
			for _, row := range rows {
				claimed = append(claimed, row.Job)
				drafts = append(drafts, journal.Draft{Job: row.Job, Payload: journal.Accepted{Target: "a", Token: token}})
			}
			return j.Append(drafts...)
		})
	}
	insert := func(n int) (ids []int64) {
		for range n {
			ids = append(ids, db.insert(t, "a", journal.RowWaiting, ""))
		}
		return ids
	}
	show := func(ids []int64, payload journal.Payload) {
		t.Helper()
		for _, id := range ids {
			must.Get(j.Append(journal.Draft{Job: id, Payload: payload}))(t)
		}
		var newest uint64
		j.View(func(s *journal.State) { newest = s.Seq })
		<-m.Shown(newest, 0)
	}
	done := journal.Done{Result: "ok", Token: token, Stdout: journal.Output{Kept: []byte("out\n"), Size: 4}}

	ends, runs := insert(33), insert(5) // running when the replica stops
	must.Do(t, claim())
	show(slices.Concat(ends, runs), journal.Running{Attempt: 1, Token: token})
	unseen := insert(20) // waiting when it stops
	catchUp(t, primary, replica)
	must.Get(replica.Admin().Exec("STOP SLAVE"))(t)
	must.Do(t, claim())
	show(unseen, journal.Running{Attempt: 1, Token: token})
	show(slices.Concat(ends, unseen[:15]), done)

	must.Do(t, primary.Kill())
	reach(replica)
	claimed = nil
	retry := store.NewRetry(slog.New(slog.DiscardHandler), "claim")
	for err := claim(); err != nil; err = claim() { // as a worker does, all the time
		if retry.Wait(t.Context(), err) != nil {
			t.Fatal(err)
		}
	}
	if len(claimed) > 0 {
		t.Errorf("rows that had run were claimed again: %v", claimed)
	}
	show(slices.Concat(runs, unseen[15:]), done)

	app := must.Get(replica.Open(db.name))(t)
	defer app.Close()
	var whole int
	must.Do(t, app.QueryRow("SELECT COUNT(*) FROM jobs WHERE status = 'done' AND result = 'ok' AND stdout = 'out\n' AND time_started > 0").Scan(&whole))
	if want := len(ends) + len(runs) + len(unseen); whole != want {
		t.Errorf("%d of %d rows are done", whole, want)
	}
	events := must.Get(j.Next(t.Context(), 0, 0))(t)
	var met []journal.Server
	for _, e := range events {
		switch p := e.Payload.(type) {
		case journal.Server:
			met = append(met, p)
		case journal.Conflict:
			t.Errorf("job %d: %+v", e.Job, p)
		}
	}
	if len(met) != 2 || met[1].Before != met[0].Server || met[1].Mended != 53 || met[1].Left != 0 {
		t.Errorf("journalled %+v, want a second server on which 53 rows were mended", met)
	}
}

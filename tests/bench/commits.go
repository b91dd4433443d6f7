package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store"
	"jobd/tests/harness"
	_ "modernc.org/sqlite"
)

// commits is what a drain costs the server, of eight workers with two slots on one target beside one with all of their
// slots; then how long a lone job takes, and how many connections the one worker has.
func commits(p *program) []reading {
	alone, together := newSite(p), newSite(p)
	client := harness.Dial(p, alone.worker("alone", launcher, map[string]int{"a": workers * slots}).Addr)
	_, poke := together.team(workers, slots)
	poll := func() { client.Ask(p, "poll", nil) }
	var one, eight []drainCost
	for i := range 4 {
		if i%2 == 0 {
			one = append(one, alone.costOfRows(poll))
		}
		eight = append(eight, together.costOfRows(poke))
		if i%2 == 1 {
			one = append(one, alone.costOfRows(poll))
		}
	}
	readings := make([]reading, 0, len(one[0])+2)
	for i := range one[0] {
		of := func(costs []drainCost) (all []float64) {
			for _, c := range costs {
				all = append(all, c[i])
			}
			return all
		}
		readings = append(readings, against(median(of(eight)), median(of(one))))
	}
	lone := alone.loneJobs(client)
	busy := alone.connectionsWhile(func() { alone.drainRate(shared, "a", poll) })
	<-time.After(25 * time.Second) // the worker closes what it has not used for 20 s
	return append(readings, against(percentile(lone, 99), median(lone)), against(busy, alone.connections()))
}

// drainCost is what a job of a drain takes: transactions that write, and microseconds of the server's processor time;
// and how many jobs a second there were.
type drainCost [3]float64

func (s *site) costOfRows(poke func()) drainCost {
	s.drainRate(200, "a", poke) // what was idle has its connections by then
	server := []int{serverPid(s.p)}
	written, micros := s.written(), used(s.p, server)
	rate := s.drainRate(shared, "a", poke)
	return drainCost{(s.written() - written) / shared, (used(s.p, server) - micros) / shared, rate}
}

// written is how many transactions have written something on the server so far.
func (s *site) written() (n float64) {
	s.Exec(s.p, "SET GLOBAL innodb_monitor_enable = 'trx_rw_commits'")
	s.p.must(s.Admin.QueryRow("SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rw_commits'").Scan(&n))
	return n
}

// loneJobs is how many milliseconds each of some manual jobs takes, one after the other.
func (s *site) loneJobs(client *harness.Wire) (millis []float64) {
	const singles, warm = 300, 20
	first := s.insert(singles+warm, "a", "manual")
	for i := range int64(singles + warm) {
		millis = append(millis, took(func() { runManual(s.p, client, first+i) }))
	}
	return millis[warm:]
}

// connections is how many the site's workers have.
func (s *site) connections() (n float64) {
	err := s.Admin.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = ?", s.Account.User).Scan(&n)
	if err != nil {
		s.p.Logf("count connections: %v", err)
	}
	return n
}

// connectionsWhile is how many connections the site's workers have at most while something is done.
func (s *site) connectionsWhile(do func()) float64 {
	over, seen := make(chan struct{}), make(chan []float64)
	go func() {
		var all []float64
		for {
			all = append(all, s.connections())
			select {
			case <-over:
				seen <- all
				return
			case <-time.After(look):
			}
		}
	}()
	do()
	close(over)
	return slices.Max(<-seen)
}

const (
	mirrored = 5000 // jobs; each has two transitions that are mirrored
	byHand   = 100  // updates in a transaction
)

// mirror is how many transitions a second the mirror brings from a journal to the table, beside the same updates
// sent in batches by hand. All jobs run before the first is done: each transition is an update of its own.
func mirror(p *program) []reading {
	s := newSite(p)
	table := s.table()
	return []reading{paired(5,
		func() float64 { return s.updatesByHand(s.insert(mirrored, "a", "accepted")) },
		func() float64 { return s.mirrorRate(table, s.insert(mirrored, "a", "accepted")) },
	)}
}

// lives appends what makes two transitions of each job.
func lives(p *program, j *eventlog.Log, first int64) (newest uint64) {
	code := 0
	done := journal.Done{Result: "ok", Code: &code, Stdout: journal.Output{Kept: []byte("a line\n"), Size: 7}}
	for _, payload := range []journal.Payload{journal.Accepted{Target: "a", Token: token}, journal.Running{Attempt: 1}, done} {
		drafts := make([]journal.Draft, mirrored)
		for i := range drafts {
			drafts[i] = journal.Draft{Job: first + int64(i), Payload: payload}
		}
		events, err := j.Append(drafts...)
		p.must(err)
		newest = events[len(events)-1].Seq
	}
	return newest
}

func (s *site) mirrorRate(t table, first int64) float64 {
	s.Exec(s.p, "UPDATE jobs SET sig = ? WHERE id >= ?", token, first)
	j, err := eventlog.Open(s.p.Context(), eventlog.Config{Dir: s.p.TempDir()})
	s.p.must(err)
	defer j.Close()
	newest := lives(s.p, j, first)
	m := store.NewMirror(store.Config{
		Source: j, Bookmark: j, Table: t.Table, Logger: slog.New(slog.DiscardHandler), OnReturn: func() {},
	})
	ctx, cancel := context.WithCancel(s.p.Context())
	ended := make(chan error, 1)
	measured := rate(2*mirrored, func() {
		go func() { ended <- m.Run(ctx) }()
		<-m.Shown(newest, 0)
	})
	cancel()
	s.p.must(<-ended)
	if done := s.Count(s.p, "id >= ? AND result = 'ok'", first); done != mirrored {
		s.p.Fatalf("%d of %d rows are done", done, mirrored)
	}
	return measured
}

// updatesByHand writes the same transitions, guarded in the same way, with as few round trips.
func (s *site) updatesByHand(first int64) float64 {
	s.Exec(s.p, "UPDATE jobs SET sig = ? WHERE id >= ?", token, first)
	conn, err := s.Admin.Conn(s.p.Context())
	s.p.must(err)
	defer conn.Close()
	guard := fmt.Sprintf(" WHERE id = ? AND status IN ('accepted', 'running') AND sig = '%s';", token)
	running := "UPDATE jobs SET status = 'running', time_started = UNIX_TIMESTAMP()" + guard
	done := "UPDATE jobs SET status = 'done', time_finished = UNIX_TIMESTAMP(), result = 'ok', return_code = 0, sig = NULL, stdout = 'a line\\n', stderr = ''" + guard
	return rate(2*mirrored, func() {
		for _, update := range []string{running, done} {
			for at := first; at < first+mirrored; at += byHand {
				s.p.must(batch(s.p.Context(), conn, update, at))
			}
		}
	})
}

func batch(ctx context.Context, conn *sql.Conn, update string, first int64) error {
	ids := make([]any, byHand)
	for i := range ids {
		ids[i] = first + int64(i)
	}
	_, err := conn.ExecContext(ctx, "START TRANSACTION;"+strings.Repeat(update, byHand)+"COMMIT", ids...)
	return err
}

// the raw limit's driver, which is the journal's

// appending is how long each turn takes.
const appending = time.Second

// appenders is how many events a second the journal takes from so many goroutines, one event and one
// fsync at a time each, beside SQLite that gets as many rows in one statement.
func appenders(p *program) []reading { return []reading{appendBeside(p, 64)} }

// appender is the same for one.
func appender(p *program) []reading { return []reading{appendBeside(p, 1)} }

func appendBeside(p *program, n int) reading {
	j, err := eventlog.Open(p.Context(), eventlog.Config{Dir: p.TempDir()})
	p.must(err)
	defer j.Close()
	raw := newYardstick(p, n)
	var job atomic.Int64
	return paired(5, raw.rate, func() float64 { return appendRate(p, j, n, &job) })
}

// appendRate is how many events a second are acknowledged to n goroutines, each of which writes the
// whole life of one job after the other.
func appendRate(p *program, j *eventlog.Log, n int, job *atomic.Int64) float64 {
	var events atomic.Int64
	var failed atomic.Pointer[error]
	begun := time.Now()
	atOnce(n, func() {
		for time.Since(begun) < appending && failed.Load() == nil {
			for _, draft := range life(job.Add(1)) {
				if _, err := j.Append(draft); err != nil {
					failed.Store(&err)
					return
				}
				events.Add(1)
			}
		}
	})
	if err := failed.Load(); err != nil {
		p.Fatal(*err)
	}
	return float64(events.Load()) / time.Since(begun).Seconds()
}

// life is what the journal holds of one job.
func life(job int64) []journal.Draft {
	code := 0
	return []journal.Draft{
		{Job: job, Payload: journal.Accepted{Target: "a", Token: token}},
		{Job: job, Payload: journal.Running{Attempt: 1}},
		{Job: job, Payload: journal.Started{Pid: 4711, StartTime: 12345, BootID: "e5a1f2c0-6a55-4a6e-9d5e-5d7d3f2b8c11"}},
		{Job: job, Payload: journal.Done{Result: "ok", Code: &code, Stdout: journal.Output{Kept: []byte("a line\n"), Size: 7}}},
	}
}

// yardstick is a plain SQLite table with rows like the journal's, and nothing around it.
type yardstick struct {
	p      *program
	insert *sql.Stmt
	rows   int // in a statement, which is a commit
	next   int64
	args   []any
}

func newYardstick(p *program, rows int) *yardstick {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(p.TempDir(), "yardstick.db")+
		"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	p.must(err)
	db.SetMaxOpenConns(1)
	p.Cleanup(func() { db.Close() })
	_, err = db.Exec(`CREATE TABLE events (seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, job INTEGER NOT NULL, kind TEXT NOT NULL,
		payload TEXT NOT NULL, stdout BLOB, stderr BLOB, hash BLOB NOT NULL) STRICT; CREATE INDEX events_job ON events (job, seq)`)
	p.must(err)
	insert, err := db.PrepareContext(p.Context(), "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)"+strings.Repeat(", (?, ?, ?, ?, ?, ?, ?, ?)", rows-1))
	p.must(err)
	return &yardstick{p: p, insert: insert, rows: rows}
}

// rate is how many rows a second are committed.
func (y *yardstick) rate() float64 {
	rows, begun := 0, time.Now()
	for ; time.Since(begun) < appending; rows += y.rows {
		y.commit()
	}
	return float64(rows) / time.Since(begun).Seconds()
}

// commit commits one statement's rows.
func (y *yardstick) commit() {
	y.args = y.args[:0]
	for range y.rows {
		y.next++
		y.args = append(y.args, y.next, int64(1_800_000_000_000_000), y.next/4, "started", yardPayload, nil, nil, yardHash)
	}
	_, err := y.insert.ExecContext(context.Background(), y.args...)
	y.p.must(err)
}

// What the rows hold.
const yardPayload = `{"pid":4711,"start_time":12345,"boot_id":"e5a1f2c0"}`

var yardHash = bytes.Repeat([]byte{7}, 32)

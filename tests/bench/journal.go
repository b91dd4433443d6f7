package main

import (
	"bytes"
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite"

	"jobd/journal"
	"jobd/journal/eventlog"
)

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

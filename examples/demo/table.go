package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	_ "modernc.org/sqlite" // the driver of the embedded table

	"jobd/store/storetest/dbserver"
)

// table is the application's side of the jobs table: it inserts and reads.
type table struct {
	db       *sql.DB
	settings string       // how jobd finds the table: lines of its configuration
	close    func() error // ends the connections, and the server if there is one
}

// openTable makes an empty jobs table in the store.
func openTable(ctx context.Context, store, dir string) (*table, error) {
	switch store {
	case "sqlite":
		return openSQLite(ctx, filepath.Join(dir, "jobs.db"))
	case "mysql":
		return openMySQL(ctx)
	}
	return nil, fmt.Errorf("--store %s: allowed: sqlite and mysql", store)
}

// sqliteTable is the embedded form of the table. jobd would make the same one.
const sqliteTable = `CREATE TABLE jobs (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  target        TEXT NOT NULL,
  time_created  INTEGER NOT NULL,
  time_started  INTEGER NOT NULL DEFAULT 0,
  time_finished INTEGER NOT NULL DEFAULT 0,
  status        TEXT NOT NULL DEFAULT 'waiting',
  result        TEXT,
  return_code   INTEGER,
  sig           TEXT,
  stdout        TEXT,
  stderr        TEXT,
  run_at        INTEGER NOT NULL DEFAULT 0,
  planned_at    INTEGER NOT NULL DEFAULT 0,
  schedule      TEXT,
  time_zone     TEXT,
  attempts      INTEGER NOT NULL DEFAULT 0,
  max_attempts  INTEGER,
  timeout       INTEGER,
  priority      INTEGER NOT NULL DEFAULT 0,
  unique_key    TEXT UNIQUE
);
CREATE INDEX status_target_idx ON jobs (status, target, id);
CREATE INDEX due_idx ON jobs (status, target, run_at);
CREATE INDEX priority_idx ON jobs (status, target, priority DESC, id)`

// mysqlTime adds the same to a table that has nothing of time.
const mysqlTime = `ALTER TABLE jobs
  MODIFY status enum('waiting','manual','accepted','running','done','ignored','delayed') NOT NULL DEFAULT 'waiting',
  ADD run_at bigint UNSIGNED NOT NULL DEFAULT 0,
  ADD planned_at bigint UNSIGNED NOT NULL DEFAULT 0,
  ADD schedule varchar(64) DEFAULT NULL,
  ADD time_zone varchar(64) DEFAULT NULL,
  ADD attempts smallint UNSIGNED NOT NULL DEFAULT 0,
  ADD max_attempts smallint UNSIGNED DEFAULT NULL,
  ADD timeout int UNSIGNED DEFAULT NULL,
  ADD priority tinyint NOT NULL DEFAULT 0,
  ADD unique_key varchar(64) DEFAULT NULL UNIQUE,
  ADD KEY due_idx (status, target, run_at),
  ADD KEY priority_idx (status, target, priority DESC, id)`

func openSQLite(ctx context.Context, file string) (*table, error) {
	pragmas := url.Values{"_pragma": {"journal_mode(wal)", "busy_timeout(10000)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+file+"?"+pragmas.Encode())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", file, err)
	}
	if _, err := db.ExecContext(ctx, sqliteTable); err != nil {
		return nil, errors.Join(fmt.Errorf("create the table: %w", err), db.Close())
	}
	return &table{db: db, settings: "store = sqlite\nsqlite_path = " + file + "\n", close: db.Close}, nil
}

// openMySQL starts a MariaDB of the demo's own. The daemons get an account that may
// SELECT and UPDATE the one table.
func openMySQL(ctx context.Context) (*table, error) {
	server, err := dbserver.Start(ctx, dbserver.Options{})
	if err != nil {
		return nil, err
	}
	t, err := mysqlTable(ctx, server)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return t, nil
}

func mysqlTable(ctx context.Context, server *dbserver.Server) (*table, error) {
	const database = "demo"
	if err := server.CreateDatabase(ctx, database, dbserver.JobsTable, mysqlTime); err != nil {
		return nil, err
	}
	account, err := server.Limited(ctx, database)
	if err != nil {
		return nil, err
	}
	db, err := server.Open(database)
	if err != nil {
		return nil, err
	}
	return &table{
		db: db,
		settings: fmt.Sprintf("mysql_host = 127.0.0.1\nmysql_port = %d\nmysql_user = %s\nmysql_password = %s\nmysql_database = %s\n",
			server.Port(), account.User, strconv.Quote(account.Password), database),
		close: func() error { return errors.Join(db.Close(), server.Close()) },
	}, nil
}

// insert adds jobs as an application does: one INSERT, status and target, for a job that recurs when,
// and nothing else.
func (t *table) insert(ctx context.Context, jobs []job) error {
	var rows []string
	var values []any
	for _, j := range jobs {
		rows = append(rows, "(?, ?, ?, ?, ?)")
		values = append(values, j.id, j.target, j.created.Unix(), j.status, j.schedule)
	}
	_, err := t.db.ExecContext(ctx,
		"INSERT INTO jobs (id, target, time_created, status, schedule) VALUES "+strings.Join(rows, ", "), values...)
	if err != nil {
		return fmt.Errorf("insert jobs: %w", err)
	}
	return nil
}

// row is what a job's row says of it.
type row struct {
	id                int64
	target, status    string
	result, signal    sql.NullString
	code              sql.NullInt64
	stdout, stderr    sql.NullString
	started, finished int64
	due, planned      int64
	attempts          int64
}

// rows reads the whole table, in the order of the ids.
func (t *table) rows(ctx context.Context) ([]row, error) {
	result, err := t.db.QueryContext(ctx,
		"SELECT id, target, status, result, return_code, sig, stdout, stderr, time_started, time_finished, run_at, planned_at, attempts FROM jobs ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("read the table: %w", err)
	}
	defer result.Close()
	var all []row
	for result.Next() {
		var r row
		err := result.Scan(&r.id, &r.target, &r.status, &r.result, &r.code, &r.signal, &r.stdout, &r.stderr,
			&r.started, &r.finished, &r.due, &r.planned, &r.attempts)
		if err != nil {
			return nil, fmt.Errorf("read the table: %w", err)
		}
		all = append(all, r)
	}
	return all, result.Err()
}

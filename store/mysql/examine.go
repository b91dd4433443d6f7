package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"jobd/store"
	"jobd/store/internal/rule"
)

// Check implements store.Table.
func (t *Table) Check(ctx context.Context) error {
	op := "check table " + t.config.Table
	err := t.retry(ctx, func() error { return t.examine(ctx) })
	if err == nil {
		return nil
	}
	t.layout.Store(nil)
	t.db.SetMaxIdleConns(0) // a session keeps the server's variables as they were when it was made
	t.db.SetMaxIdleConns(t.config.MaxOpen - 1)
	return t.failures.Certain(op, err)
}

// askTimeout is for asking the table itself whether it can be used.
const askTimeout = 15 * time.Second

// checkAlone examines the table itself, to know whether it can be used.
func (t *Table) checkAlone() error {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	return t.Check(ctx)
}

// examine asks the server for the table's layout and keeps it. Faults are its error, all of them at
// once; of the rest it warns.
func (t *Table) examine(ctx context.Context) error {
	found, err := t.inspect(ctx)
	if err != nil {
		return err
	}
	if err := found.Err(); err != nil {
		return err
	}
	for _, finding := range found.List {
		t.warn(finding.Advice())
	}
	t.layout.Store(&found.layout)
	t.started.Store(true)
	return nil
}

// inspect asks the server what it and the table are like. What is wrong with the table does not end
// it; what was found up to an error comes with it.
func (t *Table) inspect(ctx context.Context) (*inspection, error) {
	var found *inspection
	err := t.once(ctx, func(conn *sql.Conn) (bool, error) {
		found = &inspection{
			layout:   layout{table: t.name.quoted(), worker: t.config.Worker, times: times{uses: t.config.Uses}},
			Findings: rule.Findings{Table: "table " + t.name.quoted()},
		}
		steps := []func(context.Context, *sql.Conn, *inspection) error{
			examineServer, t.examineAccess, t.examineKind, t.examineColumns, t.examineTimes, t.examineUpdate, t.examineIndexes,
		}
		for _, step := range steps {
			if err := step(ctx, conn, found); err != nil {
				return false, ofAccount(ctx, conn, err)
			}
		}
		return true, nil
	})
	if found == nil {
		found = &inspection{}
	}
	return found, err
}

// examineServer asks for the version, the packet limit, and whether there is a cluster, once for
// all that depends on them.
func examineServer(ctx context.Context, conn *sql.Conn, found *inspection) error {
	var text string
	err := conn.QueryRowContext(ctx, "SELECT @@version, @@max_allowed_packet").Scan(&text, &found.packet)
	if err != nil {
		return err
	}
	if found.version, err = parseVersion(text); err != nil {
		return err
	}
	if !found.version.skipsLocked() {
		found.Warn("use MariaDB from 10.6, or MySQL from 8.0.1", "its server (%s) has no SKIP LOCKED: claims wait for rows that others have locked", found.version)
	}
	var name, replicates string
	err = conn.QueryRowContext(ctx, "SHOW VARIABLES LIKE 'wsrep_on'").Scan(&name, &replicates)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // a server that knows no Galera
	}
	found.galera = replicates == "ON"
	return err
}

// examineAccess reads nothing from the table, which shows whether it is there and may be read.
func (t *Table) examineAccess(ctx context.Context, conn *sql.Conn, _ *inspection) error {
	_, err := conn.ExecContext(ctx, "SELECT 1 FROM "+t.name.quoted()+" WHERE 1=0")
	return err
}

// examineKind refuses what is no table, and engines that have no transactions or no row locks.
func (t *Table) examineKind(ctx context.Context, conn *sql.Conn, found *inspection) error {
	var kind, engine, options string
	err := conn.QueryRowContext(ctx,
		"SELECT TABLE_TYPE, COALESCE(ENGINE, ''), COALESCE(CREATE_OPTIONS, '') FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?",
		t.name.database, t.name.table).Scan(&kind, &engine, &options)
	if err != nil {
		return fmt.Errorf("its entry in information_schema.TABLES: %w", err)
	}
	found.partitioned = strings.Contains(options, "partitioned")
	switch {
	case strings.Contains(kind, "VIEW"):
		found.Fault("name in mysql_table the table that the view reads", "it is a view, of which rows can't be claimed")
	case !strings.EqualFold(engine, "InnoDB"):
		found.Fault("ALTER TABLE "+t.name.quoted()+" ENGINE=InnoDB", "its engine is %s, which has no transactions or no row locks; only InnoDB will do", engine)
	}
	return nil
}

// examineColumns reads what the columns can hold, and judges it.
func (t *Table) examineColumns(ctx context.Context, conn *sql.Conn, found *inspection) error {
	columns, err := t.readColumns(ctx, conn, found.version)
	if err != nil {
		return err
	}
	found.columns = columns
	found.target, found.owner = columns["target"], columns[strings.ToLower(t.config.ClaimColumn)]
	found.sig, found.result, found.returnCode = columns[store.SigColumn], columns["result"], columns["return_code"]
	found.created, found.started, found.finished = columns["time_created"], columns["time_started"], columns["time_finished"]
	found.stdout, found.stderr = columns["stdout"], columns["stderr"]
	t.judgeColumns(found)
	return t.examineOptional(ctx, conn, found)
}

// examineUpdate updates no row, as a single change does, which
// shows whether the account may and whether the server takes writes.
func (t *Table) examineUpdate(ctx context.Context, conn *sql.Conn, found *inspection) error {
	if found.IsFaulty() {
		return nil // it would only fail
	}
	assignments := make([]string, 0, len(found.columns))
	for _, name := range rule.Written(t.config.ClaimColumn, t.config.Uses) {
		assignments = append(assignments, quote(name)+" = "+quote(name))
	}
	_, err := conn.ExecContext(ctx, "UPDATE "+t.name.quoted()+" SET "+strings.Join(assignments, ", ")+" WHERE 1=0")
	return err
}

package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"jobd/journal"
)

// The columns of the table that are used by name.
const sigColumn = "sig"

// layout is what the server and the table are like.
type layout struct {
	table      string // quoted
	worker     string // the worker's name
	version    version
	galera     bool // the server is a node of a Galera cluster
	packet     int  // the server's max_allowed_packet, bytes
	owner      column
	sig        column
	created    column
	started    column
	finished   column
	returnCode column
	stdout     column
	stderr     column
}

// requiredColumns are the columns that a jobs table must have, beside the owner column.
func requiredColumns() []string {
	return []string{
		"id", "target", "time_created", "time_started", "time_finished",
		"status", "result", "return_code", sigColumn, "stdout", "stderr",
	}
}

// examine asks the server for the table's layout and keeps it.
func (t *Table) examine(ctx context.Context) error {
	found := layout{table: t.name.quoted(), worker: t.config.Worker}
	return t.once(ctx, func(conn *sql.Conn) (bool, error) {
		steps := []func(context.Context, *sql.Conn, *layout) error{
			examineServer, t.examineAccess, t.examineEngine, t.examineColumns, t.examineUpdate, t.examineIndexes,
		}
		for _, step := range steps {
			if err := step(ctx, conn, &found); err != nil {
				return false, err
			}
		}
		t.layout.Store(&found)
		return true, nil
	})
}

// examineServer asks for the version, the packet limit, and whether there is a cluster, once for all that depends on them.
func examineServer(ctx context.Context, conn *sql.Conn, found *layout) error {
	var text string
	err := conn.QueryRowContext(ctx, "SELECT @@version, @@max_allowed_packet").Scan(&text, &found.packet)
	if err != nil {
		return err
	}
	if found.version, err = parseVersion(text); err != nil {
		return err
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
func (t *Table) examineAccess(ctx context.Context, conn *sql.Conn, _ *layout) error {
	_, err := conn.ExecContext(ctx, "SELECT 1 FROM "+t.name.quoted()+" WHERE 1=0")
	return err
}

// examineEngine refuses engines that have no transactions or no row locks.
func (t *Table) examineEngine(ctx context.Context, conn *sql.Conn, _ *layout) error {
	var engine string
	err := conn.QueryRowContext(ctx,
		"SELECT COALESCE(ENGINE, TABLE_TYPE) FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?",
		t.name.database, t.name.table).Scan(&engine)
	if err != nil {
		return fmt.Errorf("its entry in information_schema.TABLES: %w", err)
	}
	if !strings.EqualFold(engine, "InnoDB") {
		return unfit("its engine is %s, which has no transactions or no row locks; only InnoDB will do: ALTER TABLE %s ENGINE=InnoDB",
			engine, t.name.quoted())
	}
	return nil
}

// examineColumns reads what the columns can hold and refuses what cannot work.
func (t *Table) examineColumns(ctx context.Context, conn *sql.Conn, found *layout) error {
	columns, err := t.readColumns(ctx, conn)
	if err != nil {
		return err
	}
	var missing []string
	for _, name := range append(requiredColumns(), t.config.ClaimColumn) {
		if _, ok := columns[strings.ToLower(name)]; !ok && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return unfit("it has no column %s", strings.Join(missing, ", "))
	}
	found.owner = columns[strings.ToLower(t.config.ClaimColumn)]
	found.sig, found.returnCode = columns[sigColumn], columns["return_code"]
	found.created, found.started, found.finished = columns["time_created"], columns["time_started"], columns["time_finished"]
	found.stdout, found.stderr = columns["stdout"], columns["stderr"]
	return t.judgeColumns(columns, found.owner)
}

// judgeColumns refuses columns that cannot hold what jobd writes into them.
func (t *Table) judgeColumns(columns map[string]column, owner column) error {
	words := map[string][]string{
		"status": {
			journal.RowWaiting, journal.RowManual, journal.RowAccepted,
			journal.RowRunning, journal.RowDone, journal.RowIgnored,
		},
		"result": {"ok", "fail"},
	}
	for _, name := range []string{"status", "result"} {
		if lacking := columns[name].lacks(words[name]); len(lacking) > 0 {
			return unfit("column %s (%s) cannot hold %s; it needs '%s'",
				name, columns[name].definition, strings.Join(lacking, ", "), strings.Join(words[name], "','"))
		}
	}
	if !owner.holdsToken() {
		return unfit("column %s (%s) cannot hold a claim's token, %d characters; either ALTER TABLE %s MODIFY %s char(%d) DEFAULT NULL, "+
			"or add a column for the tokens and name it in claim_column: ALTER TABLE %[4]s ADD jobd_claim char(%[6]d) DEFAULT NULL",
			owner.name, owner.definition, tokenLength, t.name.quoted(), quote(owner.name), tokenLength)
	}
	return nil
}

// examineUpdate updates no row, as a single change does, which
// shows whether the account may and whether the server takes writes.
func (t *Table) examineUpdate(ctx context.Context, conn *sql.Conn, found *layout) error {
	names := []string{"status", "time_started", "time_finished", "result", "return_code", sigColumn, "stdout", "stderr", found.owner.name}
	slices.Sort(names)
	assignments := make([]string, 0, len(names))
	for _, name := range slices.Compact(names) {
		assignments = append(assignments, quote(name)+" = "+quote(name))
	}
	_, err := conn.ExecContext(ctx, "UPDATE "+t.name.quoted()+" SET "+strings.Join(assignments, ", ")+" WHERE 1=0")
	return err
}

// examineIndexes warns where every claim would read the whole table.
func (t *Table) examineIndexes(ctx context.Context, conn *sql.Conn, _ *layout) error {
	var helpful int
	err := conn.QueryRowContext(ctx, `SELECT COUNT(*) FROM (
		SELECT INDEX_NAME FROM information_schema.STATISTICS
		WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND SEQ_IN_INDEX <= 2 AND LOWER(COLUMN_NAME) IN ('status', 'target')
		GROUP BY INDEX_NAME HAVING COUNT(*) = 2) AS helpful`, t.name.database, t.name.table).Scan(&helpful)
	if err == nil && helpful == 0 {
		t.warn("no index helps claims, each one reads the whole table: ALTER TABLE " + t.name.quoted() +
			" ADD KEY status_target_idx (status, target, id)")
	}
	return err
}

// misfit is an error of the table itself, which somebody has to change.
type misfit struct{ text string }

func (m misfit) Error() string { return m.text }

func unfit(format string, args ...any) error { return misfit{fmt.Sprintf(format, args...)} }

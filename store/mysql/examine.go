package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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
	return t.Certain(op, err)
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
	for _, finding := range found.All() {
		t.warn(finding.Advice())
	}
	found.Unindexed = found.NotClaimed()
	t.layout.Store(&found.layout)
	return nil
}

// inspect asks the server what it and the table are like. What is wrong with the table does not end
// it; what was found up to an error comes with it.
func (t *Table) inspect(ctx context.Context) (*inspection, error) {
	var found *inspection
	err := t.once(ctx, func(conn *sql.Conn) (bool, error) {
		found = &inspection{
			Findings: rule.Findings{Table: "table " + t.name.quoted()},
		}
		steps := []func(context.Context, *sql.Conn, *inspection) error{
			examineServer, t.examineAccess, t.examineKind, t.examineColumns, t.examineUpdate, t.examineIndexes,
		}
		for _, step := range steps {
			if err := step(ctx, conn, found); err != nil {
				return false, err
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
		found.Warn("use MariaDB from 10.6, or MySQL from 8.0.1",
			"its server (%s) has no SKIP LOCKED: claims wait for rows that others have locked", text)
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
		found.Fault("set mysql_table to the table that the view reads", "it is a view, of which rows can't be claimed")
	case !strings.EqualFold(engine, "InnoDB"):
		found.Fault("ALTER TABLE "+t.name.quoted()+" ENGINE=InnoDB", "its engine is %s, which has no transactions or no row locks; only InnoDB will do", engine)
	}
	return nil
}

// examineColumns reads what the columns can hold, and judges it.
func (t *Table) examineColumns(ctx context.Context, conn *sql.Conn, found *inspection) error {
	columns, err := t.readColumns(ctx, conn)
	if err == nil && !found.IsFaulty() {
		err = t.readDeclarations(ctx, conn, columns)
	}
	if err != nil {
		return err
	}
	found.columns = columns
	found.Shape = t.shape(found)
	for name, c := range columns {
		found.Columns[name] = c.Column
	}
	t.judgeColumns(found)
	return nil
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

// layout is what the server and the table are like.
type layout struct {
	rule.Shape
	columns map[string]column // by name in lower case
	version version
	galera  bool // the server is a node of a Galera cluster
	packet  int  // the server's max_allowed_packet, bytes
}

// inspection is an examination of the table under way: what it is like, and what is wrong with it.
type inspection struct {
	layout
	rule.Findings
	partitioned bool
}

// Findings examines the table as Check does, and the names of targets as Names does, and tells
// everything that is wrong, faults first. It changes nothing, and logs nothing. An error means
// that not everything could be asked; the findings up to there come with it, and among them is
// one that explains the error.
func (t *Table) Findings(ctx context.Context, targets []string) ([]store.Finding, error) {
	found := &inspection{}
	err := t.retry(ctx, func() (err error) {
		found, err = t.inspect(ctx)
		return err
	})
	if err == nil && !found.IsFaulty() {
		t.layout.Store(&found.layout)
		var unfit map[string]string
		unfit, err = t.judgeNames(ctx, targets)
		found.Unserved(unfit)
	}
	if err != nil {
		found.List = append(found.List, store.Finding{Severity: store.Fault, Where: t.way(), What: err.Error()})
		err = t.explained(err)
	}
	return found.All(), err
}

// readIndexes reads the indexes that a search can use.
func (t *Table) readIndexes(ctx context.Context, conn *sql.Conn) ([]rule.Index, error) {
	rows, err := conn.QueryContext(ctx, "SHOW INDEX FROM "+t.name.quoted())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	heads, err := rows.Columns() // servers and versions have others
	if err != nil {
		return nil, err
	}
	usable := map[string]rule.Index{}
	values := make([]sql.NullString, len(heads))
	targets := make([]any, len(heads))
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		part := map[string]string{}
		for i, head := range heads {
			part[strings.ToLower(head)] = values[i].String
		}
		name := part["key_name"]
		if part["visible"] == "NO" || part["ignored"] == "YES" || part["index_type"] != "BTREE" {
			continue
		}
		found := usable[name]
		at, _ := strconv.Atoi(part["seq_in_index"])
		for len(found.Columns) < at {
			found.Columns, found.Falling = append(found.Columns, ""), append(found.Falling, false)
		}
		found.Name, found.Columns[at-1], found.Unique = name, strings.ToLower(part["column_name"]), part["non_unique"] == "0"
		found.Falling[at-1] = part["collation"] == "D"
		if part["sub_part"] != "" {
			found.Part++
		}
		usable[name] = found
	}
	return slices.SortedFunc(maps.Values(usable), func(a, b rule.Index) int { return cmp.Compare(a.Name, b.Name) }), rows.Err()
}

// examineIndexes finds the indexes that claims name.
func (t *Table) examineIndexes(ctx context.Context, conn *sql.Conn, found *inspection) error {
	indexes, err := t.readIndexes(ctx, conn)
	if err != nil {
		return err
	}
	behind, target := []string(nil), "target"
	if at := slices.IndexFunc(indexes, func(i rule.Index) bool { return i.Name == "PRIMARY" }); at >= 0 {
		if indexes[at].Columns[0] == "id" {
			found.ByKey = " FORCE INDEX (PRIMARY)" // else the server may read the table, where it would meet other rows
		}
		if !found.partitioned {
			behind = indexes[at].Columns
		}
	}
	if kind := found.columns["target"].kind; strings.HasSuffix(kind, "text") || strings.HasSuffix(kind, "blob") {
		target = "target(64)"
	}
	found.Chosen = t.needed().JudgeIndexes(&found.Findings, indexes, behind, found.version.descends(), target)
	return nil
}

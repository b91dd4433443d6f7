package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
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
		found.Fault("name in mysql_table the table that the view reads", "it is a view, of which rows can't be claimed")
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
	keyed   bool              // the primary key begins with the id
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

// skewLimit is how far the server's clock may be from this host's: times in rows are the worker's,
// those that SQL compares them with the server's.
const skewLimit = 2 * time.Second

// variables are those of the server that Inspect looks at. Servers that do not know one leave it
// out.
const variables = "SHOW VARIABLES WHERE Variable_name IN ('version', 'read_only', 'super_read_only', 'innodb_read_only', " +
	"'binlog_format', 'log_bin', 'wsrep_on', 'wsrep_sync_wait', 'max_user_connections', 'max_connections', 'innodb_flush_log_at_trx_commit')"

// Inspect looks at the server and the account, in one round trip each, beside what Findings says of
// the table's layout. It changes nothing.
func (t *Table) Inspect(ctx context.Context) (store.Inspection, error) {
	var seen store.Inspection
	err := t.once(ctx, func(conn *sql.Conn) (bool, error) {
		for _, step := range []func(context.Context, *sql.Conn, *store.Inspection) error{t.inspectServer, t.inspectClock, t.inspectAccount} {
			if err := step(ctx, conn, &seen); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	return seen, t.Fail("inspect the server", err)
}

func warning(where, what, remedy string) store.Finding {
	return store.Finding{Severity: store.Warning, Where: where, What: what, Remedy: remedy}
}

// inspectServer says what kind of server it is, and warns of what has a price there.
func (t *Table) inspectServer(ctx context.Context, conn *sql.Conn, seen *store.Inspection) error {
	known, err := texts(ctx, conn, variables)
	if err != nil {
		return err
	}
	version, err := parseVersion(known["version"])
	if err != nil {
		return err
	}
	seen.Facts = append(seen.Facts, "server "+known["version"]+", claims lock with "+strings.TrimPrefix(version.locking(), "FOR UPDATE "))
	few := func(name string) bool {
		most, err := strconv.Atoi(known[name])
		return err == nil && most > 0 && most < t.config.MaxOpen
	}
	for _, one := range []struct {
		wrong        bool
		what, remedy string
	}{
		{
			isOn(known["read_only"]) || isOn(known["super_read_only"]) || isOn(known["innodb_read_only"]),
			"it is read-only: nothing is claimed", "connect to the one that takes writes",
		},
		{
			isOn(known["wsrep_on"]), "it is a node of a Galera cluster: locks and names are local to a node",
			"let all workers and the application write to one node (docs/operations.md)",
		},
		{
			isOn(known["wsrep_on"]) && known["wsrep_sync_wait"] == "0",
			"wsrep_sync_wait is 0: after a failover to another node a read may be older than what was committed", "SET GLOBAL wsrep_sync_wait = 1 on the nodes",
		},
		{
			isOn(known["log_bin"]) && known["binlog_format"] == "STATEMENT",
			"binlog_format is STATEMENT, with which the server refuses READ COMMITTED (1665): claims then lock more rows than they take", "SET GLOBAL binlog_format = 'ROW'",
		},
		{
			known["innodb_flush_log_at_trx_commit"] != "1",
			"innodb_flush_log_at_trx_commit is not 1: a crash of the server may take back claims and results that it has acknowledged", "SET GLOBAL innodb_flush_log_at_trx_commit = 1",
		},
		{
			few("max_user_connections") || few("max_connections"),
			fmt.Sprintf("it grants fewer connections than the worker makes, %d", t.config.MaxOpen), "raise max_connections and max_user_connections, or lower mysql_max_connections",
		},
	} {
		if one.wrong {
			seen.Findings = append(seen.Findings, warning("server", one.what, one.remedy))
		}
	}
	return nil
}

func isOn(value string) bool {
	return strings.EqualFold(value, "ON") || value == "1" || strings.HasPrefix(strings.ToUpper(value), "NO_LOCK")
}

// inspectClock compares the server's clock with this host's, in the middle of a round trip.
func (t *Table) inspectClock(ctx context.Context, conn *sql.Conn, seen *store.Inspection) error {
	var seconds float64
	before := time.Now()
	if err := conn.QueryRowContext(ctx, "SELECT "+clock+" / 1e6").Scan(&seconds); err != nil {
		return err
	}
	trip := time.Since(before)
	skew := time.UnixMicro(int64(seconds * 1e6)).Sub(before.Add(trip / 2)).Round(time.Millisecond)
	if skew.Abs() <= skewLimit+trip/2 {
		seen.Facts = append(seen.Facts, fmt.Sprintf("its clock is %v from this host's", skew.Abs()))
		return nil
	}
	direction := "ahead of"
	if skew < 0 {
		direction = "behind"
	}
	seen.Findings = append(seen.Findings, warning("server", fmt.Sprintf("its clock is %v %s this host's", skew.Abs(), direction),
		"set the clocks right (NTP): times in rows are this host's, what SQL compares them with is the server's"))
	return nil
}

// texts reads names, in lower case, and their values.
func texts(ctx context.Context, conn *sql.Conn, query string) (found map[string]string, err error) {
	err = conn.Raw(func(raw any) error {
		found, err = pairs(ctx, raw.(driverConn), query)
		return err
	})
	return found, err
}

// inspectAccount says as whom the server takes the worker, and warns of rights beyond SELECT and
// UPDATE.
func (t *Table) inspectAccount(ctx context.Context, conn *sql.Conn, seen *store.Inspection) error {
	var account string
	if err := conn.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&account); err != nil {
		return err
	}
	var beyond []string
	err := rule.Each(ctx, conn, "SHOW GRANTS", nil, func(scan func(...any) error) error {
		var grant string
		err := scan(&grant)
		if rights := excess(grant); rights != "" {
			beyond = append(beyond, rights)
		}
		return err
	})
	if len(beyond) > 0 {
		seen.Findings = append(seen.Findings, warning("account "+account, "it may do more than a worker needs: "+strings.Join(beyond, ", "),
			"REVOKE what is beyond SELECT and UPDATE on "+t.name.quoted()+" from who has it"))
	} else {
		seen.Facts = append(seen.Facts, "account "+account+" has no more rights than it needs")
	}
	return err
}

// excess is what a line of SHOW GRANTS gives beyond SELECT and UPDATE on something that is no whole
// server. Nothing of it is a password: that stands behind the account's name.
func excess(grant string) string {
	rights, object, found := strings.Cut(strings.TrimPrefix(grant, "GRANT "), " ON ")
	if !found {
		return "" // a role
	}
	object, _, _ = strings.Cut(object, " TO ")
	all := object == "*.*"
	for right := range strings.SplitSeq(columns.ReplaceAllString(rights, ""), ",") {
		switch strings.TrimSpace(right) {
		case "USAGE", "PROXY":
		case "SELECT", "UPDATE":
			if all {
				return rights + " on " + object
			}
		default:
			return rights + " on " + object
		}
	}
	return ""
}

// columns are those of a right that is not about all of a table.
var columns = regexp.MustCompile("\\((?:`(?:[^`]|``)*`|[^`)])*\\)")

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
		found.List = append(found.List, store.Finding{Severity: store.Fault, Where: t.way(), What: err.Error(), Remedy: t.remedy(err)})
		err = t.explained(err)
	}
	return found.All(), err
}

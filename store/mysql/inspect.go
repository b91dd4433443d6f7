package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"jobd/store"
)

// skewLimit is how far the server's clock may be from this host's: times in rows are the worker's,
// those that SQL compares them with the server's.
const skewLimit = 2 * time.Second

// variables are those of the server that Inspect looks at. Servers that do not know one leave it
// out.
const variables = "SHOW VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'read_only', 'super_read_only', 'innodb_read_only', " +
	"'binlog_format', 'log_bin', 'wsrep_on', 'wsrep_sync_wait', 'max_user_connections', 'max_connections', 'innodb_rollback_on_timeout', " +
	"'innodb_flush_log_at_trx_commit', 'innodb_snapshot_isolation')"

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
	return seen, t.fail("inspect the server", err)
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
	fact := "server " + known["version"]
	if comment := known["version_comment"]; comment != "" {
		fact += " (" + comment + ")"
	}
	seen.Facts = append(seen.Facts, fact+", claims lock with "+strings.TrimPrefix(version.locking(), "FOR UPDATE "))
	warn := func(what, remedy string) { seen.Findings = append(seen.Findings, warning("server", what, remedy)) }
	for _, name := range []string{"super_read_only", "innodb_read_only", "read_only"} {
		if isOn(known[name]) {
			seen.Findings = append(seen.Findings, store.Finding{
				Severity: store.Warning, Where: "server", What: name + " is on: it takes no writes now, so nothing is claimed",
				Remedy: "connect to the one that takes writes, or SET GLOBAL " + name + " = 0",
			})
			break
		}
	}
	if isOn(known["wsrep_on"]) {
		warn("it is a node of a Galera cluster: locks and names are local to a node", "let all workers and the application write to one node (docs/operations.md)")
		if known["wsrep_sync_wait"] == "0" {
			warn("wsrep_sync_wait is 0: after a failover to another node a read may be older than what was committed", "SET GLOBAL wsrep_sync_wait = 1 on the nodes")
		}
	}
	if isOn(known["log_bin"]) && known["binlog_format"] == "STATEMENT" {
		warn("binlog_format is STATEMENT, with which the server refuses READ COMMITTED (1665): claims then lock more rows than they take", "SET GLOBAL binlog_format = 'MIXED' or 'ROW'")
	}
	if level := known["innodb_flush_log_at_trx_commit"]; level != "" && level != "1" {
		warn("innodb_flush_log_at_trx_commit is "+level+": a crash of the server may take back claims and results that it has acknowledged",
			"SET GLOBAL innodb_flush_log_at_trx_commit = 1; what is lost is found by comparing with the journal")
	}
	for _, name := range []string{"max_user_connections", "max_connections"} {
		if most, err := strconv.Atoi(known[name]); err == nil && most > 0 && most < t.config.MaxOpen {
			warn(fmt.Sprintf("%s is %d, and the worker makes up to %d connections", name, most, t.config.MaxOpen), "raise it, or lower mysql_max_connections")
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
func texts(ctx context.Context, conn *sql.Conn, query string) (map[string]string, error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		found[strings.ToLower(name)] = value
	}
	return found, rows.Err()
}

package mysql

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// index is one of the table's, with its columns in lower case.
type index struct {
	columns []string
	unique  bool
	falling []bool // which of them are in descending order
	part    int    // of how many columns it has the beginning only
}

// readIndexes reads the indexes that a search can use, and the names of all.
func (t *Table) readIndexes(ctx context.Context, conn *sql.Conn) (usable map[string]index, names map[string]bool, err error) {
	rows, err := conn.QueryContext(ctx, "SHOW INDEX FROM "+t.name.quoted())
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	heads, err := rows.Columns() // servers and versions have others
	if err != nil {
		return nil, nil, err
	}
	usable, names = map[string]index{}, map[string]bool{}
	values := make([]sql.NullString, len(heads))
	targets := make([]any, len(heads))
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return nil, nil, err
		}
		part := map[string]string{}
		for i, head := range heads {
			part[strings.ToLower(head)] = values[i].String
		}
		name := part["key_name"]
		names[strings.ToLower(name)] = true
		if part["visible"] == "NO" || part["ignored"] == "YES" || part["index_type"] != "BTREE" {
			continue
		}
		found := usable[name]
		at, _ := strconv.Atoi(part["seq_in_index"])
		for len(found.columns) < at {
			found.columns, found.falling = append(found.columns, ""), append(found.falling, false)
		}
		found.columns[at-1], found.unique = strings.ToLower(part["column_name"]), part["non_unique"] == "0"
		found.falling[at-1] = part["collation"] == "D"
		if part["sub_part"] != "" {
			found.part++
		}
		usable[name] = found
	}
	return usable, names, rows.Err()
}

// examineIndexes warns where every claim, or every update, would read the whole table.
func (t *Table) examineIndexes(ctx context.Context, conn *sql.Conn, found *inspection) error {
	if found.IsFaulty() {
		return nil
	}
	indexes, names, err := t.readIndexes(ctx, conn)
	if err != nil {
		return err
	}
	helpsClaims := func(i index) bool {
		return len(i.columns) > 1 && slices.Contains(i.columns[:2], "status") && slices.Contains(i.columns[:2], "target")
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(indexes)), helpsClaims) {
		found.Warn("CREATE INDEX "+free("status_target_idx", names)+" ON "+t.name.quoted()+" ("+found.claimColumns("id")+")",
			"no index helps claims, each one reads the whole table")
	}
	leads := func(i index) bool { return i.columns[0] == "id" }
	unique := func(i index) bool { return leads(i) && i.unique && len(i.columns) == 1 }
	switch all := slices.Collect(maps.Values(indexes)); {
	case !slices.ContainsFunc(all, leads):
		found.Warn("CREATE UNIQUE INDEX "+free("id_idx", names)+" ON "+t.name.quoted()+" (id)", "no index begins with id: each update reads, and locks, the whole table")
	case !slices.ContainsFunc(all, unique):
		found.Warn("CREATE UNIQUE INDEX "+free("id_idx", names)+" ON "+t.name.quoted()+" (id)", "nothing keeps two rows from having the same id: they would be one job")
	}
	t.judgePacket(found)
	return nil
}

// claimColumns are the columns of an index that claims use: status, target and some more.
func (l *layout) claimColumns(more string) string {
	target := "target"
	if strings.HasSuffix(l.target.kind, "text") || strings.HasSuffix(l.target.kind, "blob") {
		target = "target(64)"
	}
	return "status, " + target + ", " + more
}

// free is a name that no index has.
func free(name string, taken map[string]bool) string {
	for taken[name] {
		name = "jobd_" + name
	}
	return name
}

package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"
	"strconv"
	"strings"

	"jobd/store/internal/rule"
)

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

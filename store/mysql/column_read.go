package mysql

import (
	"context"
	"database/sql"
	"math"
	"strings"
)

// readColumns reads the table's columns, by their names in lower case.
func (t *Table) readColumns(ctx context.Context, conn *sql.Conn, server version) (map[string]column, error) {
	rows, err := conn.QueryContext(ctx, `SELECT COLUMN_NAME, COLUMN_TYPE, LOWER(DATA_TYPE), COALESCE(CHARACTER_SET_NAME, ''), COALESCE(COLLATION_NAME, ''),
		COALESCE(CHARACTER_MAXIMUM_LENGTH, 0), COALESCE(NUMERIC_PRECISION - NUMERIC_SCALE, 0), IS_NULLABLE = 'YES', COLUMN_DEFAULT, EXTRA, COLUMN_COMMENT
		FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?`, t.name.database, t.name.table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns := map[string]column{}
	for rows.Next() {
		var c column
		var length uint64
		var def sql.NullString
		var extra string
		err := rows.Scan(&c.name, &c.definition, &c.kind, &c.charset, &c.collation, &length, &c.digits, &c.nullable, &def, &extra, &c.comment)
		if err != nil {
			return nil, err
		}
		c.length = int(min(length, math.MaxInt32))
		extra = strings.ToUpper(extra)
		c.generated = strings.Contains(extra, " GENERATED") || strings.Contains(extra, "PERSISTENT")
		if def.Valid {
			c.def = defaultClause(server, def.String, extra)
		}
		columns[strings.ToLower(c.name)] = c
	}
	return columns, rows.Err()
}

// defaultClause is a column's DEFAULT as a statement needs it: MariaDB gives it as it is written,
// MySQL without its quotes.
func defaultClause(server version, def, extra string) string {
	switch {
	case server.mariaDB && server.since(nil, []int{10, 2, 7}):
		return " DEFAULT " + def
	case strings.Contains(extra, "DEFAULT_GENERATED"):
		return " DEFAULT (" + strings.ReplaceAll(def, `\'`, "'") + ")"
	}
	return " DEFAULT " + literal(def)
}

package mysql

import (
	"context"
	"database/sql"
	"math"
	"strings"
	"unicode/utf8"

	"jobd/journal"
)

// column is what a column can hold.
type column struct {
	name       string
	definition string // as in "enum('ok','fail')"
	kind       string // as in "enum"
	charset    string // "" where it holds bytes or no text at all
	collation  string // "" where it holds bytes or no text at all
	length     int    // bytes of a text type, characters of a char type; 0: not such a column
	digits     int    // before the point, of a decimal type
	nullable   bool
	generated  bool   // the server computes it
	def        string // its DEFAULT clause, with a blank before it; "" for none
	comment    string
}

// declared is the column with another type, and otherwise as it is.
func (c column) declared(kind string) string {
	text := quote(c.name) + " " + kind
	if c.collation != "" {
		text += " CHARACTER SET " + c.charset + " COLLATE " + c.collation
	}
	return text + c.rest()
}

// rest is what stands behind the type.
func (c column) rest() string {
	text := " NOT NULL"
	if c.nullable {
		text = " NULL"
	}
	text += c.def
	if c.comment != "" {
		text += " COMMENT " + literal(c.comment)
	}
	return text
}

// isText tells the types that hold text or bytes of any content.
func (c column) isText() bool {
	switch c.kind {
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext",
		"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return true
	}
	return false
}

// isBytes tells the types that hold bytes.
func (c column) isBytes() bool {
	return c.isText() && (strings.HasSuffix(c.kind, "blob") || strings.HasSuffix(c.kind, "binary"))
}

// seconds is an expression for the unix seconds in the column; 0 for NULL, and for what is no such
// number. It has the range of an int64, whatever the column's type.
func (c column) seconds() string {
	switch c.kind {
	case "date", "datetime", "time", "year":
		return "0" // in which time zone, only the application knows
	case "timestamp":
		return "CAST(COALESCE(UNIX_TIMESTAMP(" + quote(c.name) + "), 0) AS SIGNED)"
	}
	return "CAST(COALESCE(" + quote(c.name) + ", 0) AS SIGNED)"
}

// fits is the nearest number that a column of whole numbers holds. A count that is cut is better than
// a row that can't be updated.
func (c column) fits(value int64) int64 {
	bits := map[string]int{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "integer": 32}[c.kind]
	isUnsigned := strings.Contains(c.definition, "unsigned")
	least, most := int64(math.MinInt64), int64(math.MaxInt64)
	if bits > 0 {
		least, most = -1<<(bits-1), 1<<(bits-1)-1
	}
	if isUnsigned {
		least = 0
		if bits > 0 {
			most = 1<<bits - 1
		}
	}
	return min(max(value, least), most)
}

// empty is the column's value for nothing.
func (c column) empty() any {
	if c.nullable {
		return nil
	}
	return ""
}

// word is a short text as the column holds it: cut to its width, or nothing.
func (c column) word(text string) any {
	if text == "" {
		return c.empty()
	}
	for c.length > 0 && len(text) > c.length {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// text is a job's output as the column holds it, at most limit bytes long and
// at most what the column is wide. Characters that it cannot hold become U+FFFD, or "?" where it
// cannot hold that either (pitfall 10).
func (c column) text(output journal.Output, limit int) string {
	if c.length > 0 {
		limit = min(limit, c.length)
	}
	switch c.charset {
	case "utf8mb4", "utf16", "utf16le", "utf32", "gb18030", "":
		return output.Text(limit, journal.CharsetFull)
	case "utf8", "utf8mb3", "ucs2":
		return output.Text(limit, journal.CharsetThreeByte)
	case "latin1":
		return replace(output.Text(limit, journal.CharsetFull), func(r rune) bool { return r < 0x80 || r >= 0xA0 && r <= 0xFF })
	case "ascii":
		return replace(output.Text(limit, journal.CharsetFull), isASCII)
	default: // the rest is for the server to know; what it refuses is reduced to ASCII
		return replace(output.Text(limit, journal.CharsetFull), func(r rune) bool { return r != utf8.RuneError })
	}
}

// reduced is a job's output in the form that any column of its length holds.
func (c column) reduced(output journal.Output, limit int) string {
	const widest = 4 // bytes that a character takes at most in any charset
	if c.length > 0 {
		limit = min(limit, c.length)
	}
	return replace(output.Text(max(limit/widest, 1), journal.CharsetFull), isASCII)
}

func isASCII(r rune) bool { return r < utf8.RuneSelf }

// replace puts a question mark for every character that is not held.
func replace(text string, held func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if held(r) {
			return r
		}
		return '?'
	}, text)
}

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

// modify is the statement that changes a column.
func (t *Table) modify(declaration string) string {
	return "ALTER TABLE " + t.name.quoted() + " MODIFY " + declaration
}

// literal makes a text in quotes of any text.
func literal(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(text) + "'"
}

// accountName is an account as statements need it.
func accountName(user, host string) string { return literal(user) + "@" + literal(host) }

// quote makes an identifier of any text.
func quote(identifier string) string {
	return "`" + strings.ReplaceAll(identifier, "`", "``") + "`"
}

package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"strings"
	"unicode/utf8"

	"jobd/journal"
	"jobd/store/internal/rule"
)

// column is what a column can hold. Its length is in bytes of a text type, characters of a char type.
type column struct {
	rule.Column
	kind      string // as in "enum"
	charset   string // "" where it holds bytes or no text at all
	collation string // "" where it holds bytes or no text at all
	rest      string // of its declaration, behind the type
}

// describe says what the column holds; digits are those before the point of a decimal.
func (c *column) describe(digits int) {
	c.Holds = rule.Other
	switch kind := strings.TrimPrefix(c.kind, "var"); {
	case kind == "enum":
		c.Holds, c.Words = rule.Words, c.members()
	case c.kind == "varbinary", strings.HasSuffix(kind, "char"), strings.HasSuffix(kind, "text"):
		c.Holds = rule.Text
	case c.isBytes():
		c.Holds = rule.Bytes
	case kind == "timestamp":
		c.Holds = rule.Stamp
	case strings.HasSuffix(kind, "int"), kind == "integer":
		bits := cmp.Or(map[string]int{"tinyint": 8, "smallint": 16, "mediumint": 24, "bigint": 64}[kind], 32)
		c.Holds, c.Least, c.Most = rule.Number, -1<<(bits-1), 1<<(bits-1)-1
		if strings.Contains(c.Declared, "unsigned") {
			c.Least, c.Most = 0, int64(min(1<<bits-1, uint64(math.MaxInt64)))
		}
	case kind == "decimal":
		c.Holds, c.Most = rule.Number, int64(math.Pow10(min(digits, 18)))-1
		c.Least = -c.Most
	case kind == "double":
		c.Holds, c.Least, c.Most = rule.Number, math.MinInt64, math.MaxInt64
	case kind == "float":
		c.Holds, c.Least, c.Most = rule.Number, -1<<24, 1<<24
	}
}

// isBytes tells the types that hold bytes.
func (c *column) isBytes() bool {
	return strings.HasSuffix(c.kind, "blob") || strings.HasSuffix(c.kind, "binary")
}

// seconds is an expression for the unix seconds in the column; 0 for NULL, and for what is no such
// number. It has the range of an int64, whatever the column's type.
func (c column) seconds() string {
	switch c.kind {
	case "date", "datetime", "time", "year":
		return "0" // in which time zone, only the application knows
	case "timestamp":
		return "CAST(COALESCE(UNIX_TIMESTAMP(" + quote(c.Name) + "), 0) AS SIGNED)"
	}
	return "CAST(COALESCE(" + quote(c.Name) + ", 0) AS SIGNED)"
}

// text is a job's output as the column holds it, at most limit bytes long and
// at most what the column is wide. Characters that it cannot hold become U+FFFD, or "?" where it
// cannot hold that either (pitfall 10). The reduced form is one that any column of its length holds.
func (c column) text(output journal.Output, limit int, reduced bool) string {
	if c.Length > 0 {
		limit = min(limit, c.Length)
	}
	charset := c.charset
	if reduced {
		const widest = 4 // bytes that a character takes at most in any charset
		charset, limit = "ascii", max(limit/widest, 1)
	}
	switch charset {
	case "utf8mb4", "utf16", "utf16le", "utf32", "gb18030", "":
		return output.Text(limit, journal.CharsetFull)
	case "utf8", "utf8mb3", "ucs2":
		return output.Text(limit, journal.CharsetThreeByte)
	}
	return strings.Map(func(r rune) rune {
		isASCII, isLatin := r < utf8.RuneSelf, r >= 0xA0 && r <= 0xFF
		isOther := r != utf8.RuneError && charset != "latin1" && charset != "ascii" // for the server to know
		if isASCII || charset == "latin1" && isLatin || isOther {
			return r
		}
		return '?'
	}, output.Text(limit, journal.CharsetFull))
}

// readColumns reads the table's columns, by their names in lower case.
func (t *Table) readColumns(ctx context.Context, conn *sql.Conn) (map[string]column, error) {
	const query = `SELECT COLUMN_NAME, COLUMN_TYPE, LOWER(DATA_TYPE), COALESCE(CHARACTER_SET_NAME, ''), COALESCE(COLLATION_NAME, ''),
		COALESCE(CHARACTER_MAXIMUM_LENGTH, 0), COALESCE(NUMERIC_PRECISION - NUMERIC_SCALE, 0),
		IS_NULLABLE = 'YES', EXTRA
		FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?`
	columns := map[string]column{}
	return columns, rule.Each(ctx, conn, query, []any{t.name.database, t.name.table}, func(scan func(...any) error) error {
		var c column
		var length uint64
		var digits int
		var extra string
		err := scan(&c.Name, &c.Declared, &c.kind, &c.charset, &c.collation, &length, &digits, &c.Nullable, &extra)
		c.Length = int(min(length, math.MaxInt32))
		extra = strings.ToUpper(extra)
		c.Generated = strings.Contains(extra, " GENERATED") || strings.Contains(extra, "PERSISTENT")
		c.describe(digits)
		columns[strings.ToLower(c.Name)] = c
		return err
	})
}

// readDeclarations reads what stands behind the types of columns where the table is made. An account with
// rights on columns only may not ask: then remedies say no more than the type.
func (t *Table) readDeclarations(ctx context.Context, conn *sql.Conn, columns map[string]column) error {
	var name, text string
	err := conn.QueryRowContext(ctx, "SHOW CREATE TABLE "+t.name.quoted()).Scan(&name, &text)
	if err != nil && number(err) != errTableDenied {
		return err
	}
	for line := range strings.Lines(text) {
		for name, c := range columns {
			if rest, is := strings.CutPrefix(strings.TrimSpace(line), quote(c.Name)+" "+c.Declared); is {
				c.rest = strings.TrimSuffix(rest, ",")
				columns[name] = c
			}
		}
	}
	return nil
}

// modify is the statement that changes a column.
func (t *Table) modify(declaration string) string {
	return "ALTER TABLE " + t.name.quoted() + " MODIFY " + declaration
}

// literal makes a text in quotes of any text.
func literal(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(text) + "'"
}

// quote makes an identifier of any text.
func quote(identifier string) string {
	return "`" + strings.ReplaceAll(identifier, "`", "``") + "`"
}

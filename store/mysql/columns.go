package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// The columns: what is declared, what jobd needs, and which targets the column target can tell apart.

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

// needed is what the table needs.
func (t *Table) needed() *rule.Needed {
	return &rule.Needed{
		Table: t.name.quoted(), Owner: t.config.ClaimColumn, Worker: t.config.Worker, MaxOutput: t.config.MaxOutput, Uses: t.config.Uses,
		Quote: quote,
		Add: func(name string) string {
			add := "ALTER TABLE " + t.name.quoted() + " ADD COLUMN " + quote(name) + " " + typeOf(name, t.config.Uses)
			if name == "status" { // rows that are there are not to be run
				add += " DEFAULT 'ignored'; ALTER TABLE " + t.name.quoted() + " ALTER `status` SET DEFAULT 'waiting'"
			}
			return add
		},
		Index: func(unique bool, _, columns string) string {
			kind := "INDEX"
			if unique {
				kind = "UNIQUE INDEX"
			}
			return "ALTER TABLE " + t.name.quoted() + " ADD " + kind + " (" + columns + ")"
		},
	}
}

// typeOf is how a column is made.
func typeOf(column string, uses store.Uses) string {
	kind, _ := rule.TypeOf(column, uses)
	return kind
}

// literalDefault is a DEFAULT that texts can have in MariaDB only. In brackets all take it.
var literalDefault = regexp.MustCompile(" DEFAULT ('(?:[^']|'')*')")

// change is the statement that makes a column as it is needed, with its values.
func (t *Table) change(c column, need rule.Need) string {
	name, rest, before := strings.ToLower(c.Name), c.rest, ""
	kind := fmt.Sprintf("varchar(%d)", need.Length)
	switch {
	case len(need.Words) > 0:
		kind = c.withWords(need.Words)
	case name == store.ColumnUniqueKey:
		kind, rest = c.Declared, " DEFAULT NULL"
	case need.Classes&rule.Number != 0:
		kind, rest = typeOf(name, t.config.Uses), ""
		if t.config.Uses.Has(name) {
			update := "UPDATE %s SET %[2]s = 0 WHERE %[2]s IS NULL OR %[2]s < 0; "
			before = fmt.Sprintf(update, t.name.quoted(), quote(c.Name))
		}
	case need.Classes&rule.Bytes != 0: // output
		kind, rest = outputType(c, need.Length), literalDefault.ReplaceAllString(rest, " DEFAULT ($1)")
	}
	return before + t.modify(quote(c.Name)+" "+kind+rest)
}

// withWords is a type that holds some words, beside what the column's type holds.
func (c column) withWords(words []string) string {
	switch {
	case c.kind == "enum":
	case strings.EqualFold(c.Name, "status"):
		c.Declared, c.Words = "enum("+literal(words[0])+")", words[:1]
	default:
		return "varchar(8)"
	}
	list := strings.TrimSuffix(c.Declared, ")")
	for _, word := range words {
		if !slices.Contains(c.Words, word) {
			list += "," + literal(word)
		}
	}
	return list + ")"
}

// outputType is the smallest type of its sort that holds so many bytes.
func outputType(c column, bytes int) string {
	kind := "text"
	if c.isBytes() {
		kind = "blob"
	}
	switch {
	case bytes < 1<<16:
		return kind
	case bytes < 1<<24:
		return "medium" + kind
	}
	return "long" + kind
}

// judgeColumns notes what columns can't hold of what jobd writes.
func (t *Table) judgeColumns(found *inspection) {
	needed := t.needed()
	needed.Change = func(c rule.Column, need rule.Need) string {
		return t.change(found.columns[strings.ToLower(c.Name)], need)
	}
	needed.Judge(&found.Findings, found.Columns)
	if need := 2*t.config.MaxOutput + 2*statementOverhead; t.config.MaxOutput > 0 && found.packet < need {
		found.Warn(fmt.Sprintf("SET GLOBAL max_allowed_packet = %d, and in the server's configuration", (2*need/1024+1)*1024),
			"the server's max_allowed_packet (%d bytes) is too small for stdout and stderr of max_output_buffer (%d bytes) each: output is cut", found.packet, t.config.MaxOutput)
	}
}

// Names implements store.Table.
func (t *Table) Names(ctx context.Context, names []string) (unfit map[string]string, err error) {
	unfit, err = t.judgeNames(ctx, names)
	return unfit, t.Fail("compare the names of targets", err)
}

// judgeNames tells why names can't be served. A remedy is told with a name that another column could
// hold.
func (t *Table) judgeNames(ctx context.Context, names []string) (unfit map[string]string, err error) {
	known, err := t.layout.Get(ctx)
	if err != nil {
		return nil, err
	}
	found := known.columns["target"]
	unfit, err = t.lacking(ctx, names)
	if err != nil {
		return nil, err
	}
	longest := 64
	for _, name := range names {
		bare := strings.TrimRight(name, " ")
		length := utf8.RuneCountInString(bare)
		if found.isBytes() {
			length = len(name)
		}
		longest = max(longest, length)
		switch {
		case unfit[name] != "":
		case found.Holds&(rule.Text|rule.Bytes) != 0 && length > found.Length:
			why := "it has %d characters, the column target (%s) can't hold more than %d: no row can match"
			unfit[name] = fmt.Sprintf(why, length, found.Declared, found.Length)
		case found.Words != nil && !slices.Contains(found.Words, strings.ToLower(bare)):
			unfit[name] = "it is none of those that the column target (" + found.Declared + ") has: no row can match"
		}
	}
	for name := range unfit {
		if utf8.ValidString(name) {
			kind := fmt.Sprintf(" varchar(%d) CHARACTER SET utf8mb4 NOT NULL", longest)
			unfit[name] += "; " + t.modify(quote(found.Name)+kind)
		}
	}
	fit := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return unfit[name] != "" })
	one := func(place int) string {
		return fmt.Sprintf("SELECT %d AS place, %s AS name", place, found.compared("?"))
	}
	return unfit, rule.Alike(fit, unfit, one, func(query string, args []any, row rule.Row) error {
		return t.retry(ctx, func() error { return rule.Each(ctx, t.db, query, args, row) })
	})
}

// comparable gives those of some names that the column can be compared with: where a name has
// characters that the column's character set lacks, the server refuses the whole statement (1267).
func (t *Table) comparable(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	lacking, err := t.lacking(ctx, names)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return lacking[name] != "" }), nil
}

// lacking tells which names have characters that the column's character set does not have, in
// words.
func (t *Table) lacking(ctx context.Context, names []string) (map[string]string, error) {
	known, err := t.layout.Get(ctx)
	if err != nil {
		return nil, err
	}
	found := known.columns["target"]
	words := map[string]string{}
	var doubtful []string
	for _, name := range names {
		switch {
		case !utf8.ValidString(name):
			words[name] = "it is not valid UTF-8"
		case !found.surelyHas(name):
			doubtful = append(doubtful, name)
		}
	}
	lacks := "it has characters that the column target (character set " + found.charset + ") lacks"
	for some := range slices.Chunk(doubtful, waitingLimit) {
		var questions []string
		var args []any
		for i, name := range some {
			question := "SELECT %d, CAST(CONVERT(%s USING utf8mb4) AS BINARY) = CAST(? AS BINARY)"
			questions = append(questions, fmt.Sprintf(question, i, found.converted("?")))
			args = append(args, name, name)
		}
		err := t.retry(ctx, func() error {
			return rule.Each(ctx, t.db, strings.Join(questions, " UNION ALL "), args, func(scan func(...any) error) error {
				var place int
				var has bool
				err := scan(&place, &has)
				if !has {
					words[some[place]] = lacks
				}
				return err
			})
		})
		if err != nil {
			return nil, err
		}
	}
	return words, nil
}

// surelyHas tells without asking that the column's character set has all of a name's characters.
func (c column) surelyHas(name string) bool {
	most := rune(utf8.RuneSelf - 1)
	switch c.charset {
	case "", "binary", "utf8mb4":
		return true
	case "utf8", "utf8mb3":
		most = 0xFFFF
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r > most })
}

// converted is an expression as the column would hold it; text is one, too.
func (c column) converted(text string) string {
	if c.charset == "" || c.charset == "binary" {
		return "CAST(" + text + " AS BINARY)"
	}
	return "CONVERT(" + text + " USING " + c.charset + ")"
}

// compared is an expression that compares as the column does.
func (c column) compared(text string) string {
	if c.collation == "" {
		return c.converted(text)
	}
	return c.converted(text) + " COLLATE " + c.collation
}

// members are the words of an ENUM column, in lower case.
func (c column) members() (members []string) {
	inner := strings.TrimSuffix(c.Declared[strings.Index(c.Declared, "(")+1:], ")")
	const apostrophe = "\x00"
	for i, part := range strings.Split(strings.ReplaceAll(inner, "''", apostrophe), "'") {
		if i%2 == 1 {
			members = append(members, strings.ToLower(strings.ReplaceAll(part, apostrophe, "'")))
		}
	}
	return members
}

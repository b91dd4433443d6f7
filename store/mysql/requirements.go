package mysql

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"jobd/store"
	"jobd/store/internal/rule"
)

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

// typeOf is how a column is made. Columns that jobd does not name hold the tokens of claims.
func typeOf(column string, uses store.Uses) string {
	switch column {
	case "id":
		return "int UNSIGNED NOT NULL AUTO_INCREMENT UNIQUE"
	case "target":
		return "varchar(64) NOT NULL"
	case "time_created", "time_started", "time_finished", store.ColumnRunAt, store.ColumnPlannedAt:
		return "int UNSIGNED NOT NULL DEFAULT 0"
	case "status":
		return "enum('" + strings.Join(store.Statuses(uses), "','") + "') NOT NULL"
	case "result":
		return "enum('ok','fail') DEFAULT NULL"
	case "return_code":
		return "tinyint UNSIGNED DEFAULT NULL"
	case "stdout", "stderr":
		return "mediumtext DEFAULT NULL"
	case store.ColumnSchedule, store.ColumnTimeZone:
		return "varchar(64) DEFAULT NULL"
	case store.ColumnAttempts:
		return "smallint UNSIGNED NOT NULL DEFAULT 0"
	case store.ColumnMaxAttempts:
		return "smallint UNSIGNED DEFAULT NULL"
	case store.ColumnTimeout:
		return "int UNSIGNED DEFAULT NULL"
	case store.ColumnPriority:
		return "tinyint NOT NULL DEFAULT 0"
	case store.ColumnUniqueKey:
		return "varchar(190) DEFAULT NULL"
	}
	return fmt.Sprintf("char(%d) DEFAULT NULL", store.TokenLength)
}

// change is the statement that makes a column as it is needed, with its values.
func (t *Table) change(found *inspection, c column, need rule.Need) string {
	name := strings.ToLower(c.name)
	switch {
	case len(need.Words) > 0:
		return t.modify(c.declared(c.withWords(need.Words)))
	case name == store.ColumnUniqueKey:
		c.nullable, c.def = true, " DEFAULT NULL"
		return t.modify(c.declared(c.definition))
	case need.Classes&rule.Number != 0:
		before := ""
		if uses := t.config.Uses; uses.Has(name) {
			before = "UPDATE " + t.name.quoted() + " SET " + quote(c.name) + " = 0 WHERE " + quote(c.name) + " IS NULL OR " + quote(c.name) + " < 0; "
		}
		return before + t.modify(quote(c.name)+" "+typeOf(name, t.config.Uses))
	case need.Classes&rule.Bytes != 0: // output
		if def, isLiteral := strings.CutPrefix(c.def, " DEFAULT '"); isLiteral && !found.version.mariaDB {
			c.def = " DEFAULT ('" + def + ")" // MySQL takes none but expressions for texts
		}
		return t.modify(c.declared(outputType(c, need.Length)))
	}
	return t.modify(c.declared(fmt.Sprintf("varchar(%d)", need.Length)))
}

// withWords is a type that holds some words, beside what the column's type holds.
func (c column) withWords(words []string) string {
	switch {
	case c.kind == "enum":
	case strings.EqualFold(c.name, "status"):
		c.kind, c.definition = "enum", "enum("+literal(words[0])+")"
	default:
		return "varchar(8)"
	}
	list := strings.TrimSuffix(c.definition, ")")
	for _, word := range words {
		if !slices.Contains(c.words(), word) {
			list += "," + literal(word)
		}
	}
	return list + ")"
}

// words are those of an ENUM, in lower case; nil of another column.
func (c column) words() (words []string) {
	if c.kind != "enum" {
		return nil
	}
	for _, member := range c.members() {
		words = append(words, strings.ToLower(member.(string)))
	}
	return words
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

// described is the column as all tables have it.
func (c column) described() rule.Column {
	described := rule.Column{
		Name: c.name, Declared: c.definition, Holds: rule.Other, Length: c.length, Words: c.words(), Nullable: c.nullable, Generated: c.generated,
	}
	switch {
	case c.kind == "enum":
		described.Holds = rule.Words
	case c.kind == "varbinary", c.isText() && !c.isBytes():
		described.Holds = rule.Text
	case c.isText():
		described.Holds = rule.Bytes
	case c.kind == "timestamp":
		described.Holds = rule.Stamp
	case strings.HasSuffix(c.kind, "int"), c.kind == "integer":
		described.Holds, described.Most = rule.Number, c.fits(math.MaxInt64)
	case c.kind == "decimal":
		described.Holds, described.Most = rule.Number, int64(math.Pow10(min(c.digits, 18)))-1
	case c.kind == "double":
		described.Holds, described.Most = rule.Number, math.MaxInt64
	case c.kind == "float":
		described.Holds, described.Most = rule.Number, 1<<24
	}
	return described
}

// judgeColumns notes what columns can't hold of what jobd writes.
func (t *Table) judgeColumns(found *inspection) {
	needed := t.needed()
	needed.Change = func(c rule.Column, need rule.Need) string {
		return t.change(found, found.columns[strings.ToLower(c.Name)], need)
	}
	described := make(map[string]rule.Column, len(found.columns))
	for name, c := range found.columns {
		described[name] = c.described()
	}
	needed.Judge(&found.Findings, described)
	if need := 2*t.config.MaxOutput + 2*statementOverhead; t.config.MaxOutput > 0 && found.packet < need {
		found.Warn(fmt.Sprintf("SET GLOBAL max_allowed_packet = %d, and in the server's configuration", (2*need/1024+1)*1024),
			"the server's max_allowed_packet, %d bytes, is too small for stdout and stderr of max_output_buffer, %d bytes each: output is cut", found.packet, t.config.MaxOutput)
	}
	found.optional = map[string]column{}
	for _, name := range store.TimeColumns() {
		if c, there := found.columns[name]; there && found.Uses.Has(name) {
			found.optional[name] = c
		}
	}
}

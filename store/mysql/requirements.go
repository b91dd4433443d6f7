package mysql

import (
	"fmt"
	"regexp"
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

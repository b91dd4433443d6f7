package mysql

import (
	"fmt"
	"strings"
)

// modify is the statement that changes a column.
func (t *Table) modify(declaration string) string {
	return "ALTER TABLE " + t.name.quoted() + " MODIFY " + declaration
}

// widened is a type of texts that are at most so long.
func widened(kind string, length int) string {
	const longestChar = 255
	if length > longestChar {
		kind = strings.Replace("var"+kind, "varvar", "var", 1)
	}
	return fmt.Sprintf("%s(%d)", kind, length)
}

// withWords is an ENUM with more words.
func withWords(definition string, more []string) string {
	var list strings.Builder
	list.WriteString(strings.TrimSuffix(definition, ")"))
	for _, word := range more {
		list.WriteString("," + literal(word))
	}
	return list.String() + ")"
}

// replaced is the statements that put a column of another type in a column's place, with what an
// expression makes of its values.
func (t *Table) replaced(c column, declaration, expression, temporary string) string {
	table := t.name.quoted()
	return fmt.Sprintf("ALTER TABLE %s ADD %s %s AFTER %s; UPDATE %[1]s SET %[2]s = %[5]s; ALTER TABLE %[1]s DROP %[4]s, CHANGE %[2]s %[4]s %[3]s",
		table, quote(temporary), declaration, quote(c.name), expression)
}

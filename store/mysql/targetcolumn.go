package mysql

import (
	"strings"
	"unicode/utf8"
)

// targetColumn is what the column target is like.
type targetColumn struct {
	layout *layout // of the table as it was then
	column
	primary bool // the table's primary key begins with the id
}

// surelyHas tells without asking that the column's character set has all of a name's characters.
func (c *targetColumn) surelyHas(name string) bool {
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
func (c *targetColumn) converted(text string) string {
	if c.charset == "" || c.charset == "binary" {
		return "CAST(" + text + " AS BINARY)"
	}
	return "CONVERT(" + text + " USING " + c.charset + ")"
}

// compared is an expression that compares as the column does.
func (c *targetColumn) compared(text string) string {
	if c.collation == "" {
		return c.converted(text)
	}
	return c.converted(text) + " COLLATE " + c.collation
}

// members are the words of an ENUM column.
func (c *targetColumn) members() []any {
	inner := strings.TrimSuffix(c.definition[strings.Index(c.definition, "(")+1:], ")")
	const apostrophe = "\x00"
	var members []any
	for i, part := range strings.Split(strings.ReplaceAll(inner, "''", apostrophe), "'") {
		if i%2 == 1 {
			members = append(members, strings.ReplaceAll(part, apostrophe, "'"))
		}
	}
	return members
}

package mysql

import (
	"math"
	"strings"
	"unicode/utf8"

	"jobd/journal"
	"jobd/store"
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

// lacks are the words that the column cannot hold.
func (c column) lacks(words []string) []string {
	var lacking []string
	for _, word := range words {
		holds := c.length >= len(word)
		if c.kind == "enum" {
			holds = strings.Contains(strings.ToLower(c.definition), "'"+word+"'")
		}
		if !holds {
			lacking = append(lacking, word)
		}
	}
	return lacking
}

// holdsToken tells whether any ten characters come back from the column as they were written.
func (c column) holdsToken() bool {
	switch c.kind {
	case "char", "varchar", "varbinary", "tinytext", "text", "mediumtext", "longtext":
		return c.length >= store.TokenLength
	}
	return false
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

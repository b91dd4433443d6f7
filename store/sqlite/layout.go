package sqlite

import (
	"jobd/store/internal/rule"
)

// layout is what the table is like: which of its columns take NULL, and what is about time.
type layout struct {
	nullable map[string]bool // by name in lower case
	times
}

// inspection is an examination of the table: what it is like, and what is wrong with it.
type inspection struct {
	layout
	rule.Findings
	generated map[string]bool   // columns that SQLite computes, by name in lower case
	types     map[string]string // of columns, as they were declared, in upper case, likewise
	sql       string            // the statement that made the table
}

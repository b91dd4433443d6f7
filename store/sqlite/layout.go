package sqlite

import (
	"jobd/store/internal/rule"
)

// layout is what the table is like: which of its columns take NULL.
type layout struct {
	nullable map[string]bool // by name in lower case
}

// inspection is an examination of the table: what it is like, and what is wrong with it.
type inspection struct {
	layout
	rule.Findings
	generated map[string]bool // columns that SQLite computes, by name in lower case
}

package mysql

import (
	"jobd/store/internal/rule"
)

// layout is what the server and the table are like.
type layout struct {
	times
	table      string // quoted
	worker     string // the worker's name
	version    version
	galera     bool // the server is a node of a Galera cluster
	packet     int  // the server's max_allowed_packet, bytes
	target     column
	owner      column
	sig        column
	created    column
	started    column
	finished   column
	result     column
	returnCode column
	stdout     column
	stderr     column
}

// inspection is an examination of the table under way: what it is like, and what is wrong with it.
type inspection struct {
	layout
	rule.Findings
	columns     map[string]column // by name in lower case
	partitioned bool
}

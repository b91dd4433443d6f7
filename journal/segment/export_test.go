package segment

import "database/sql"

// Read is read.
func (d *Database) Read(query func(*sql.DB) error) error { return d.read(query) }

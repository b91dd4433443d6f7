package archive

import "database/sql"

// ReadDatabase is readDatabase.
var ReadDatabase = readDatabase

// Read is read.
func (d *database) Read(query func(*sql.DB) error) error { return d.read(query) }

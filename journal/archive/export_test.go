package archive

import "database/sql"

// ReadDatabase is a database for reading.
func ReadDatabase(path string) *database { return &database{path: path} }

// Read is read.
func (d *database) Read(query func(*sql.DB) error) error { return d.read(query) }

package segment

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"jobd/journal"
)

// made is the tables, indexes, triggers and views that schema makes, by type and name, each as
// SQLite keeps its statement.
var made = sync.OnceValues(func() (map[string]string, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(schema); err != nil {
		return nil, err
	}
	_, objects, err := objectsOf(context.Background(), db)
	return objects, err
})

// objectsOf gives a database's version and all that is defined in it, as of one moment.
func objectsOf(ctx context.Context, db *sql.DB) (version int, objects map[string]string, err error) {
	rows, err := db.QueryContext(ctx, `SELECT '', '', user_version FROM pragma_user_version
		UNION ALL SELECT type || ' ' || name, coalesce(sql, '') || ' of ' || tbl_name, 0 FROM sqlite_schema`)
	if err != nil {
		return 0, nil, err
	}
	defer rows.Close()
	objects = make(map[string]string)
	for rows.Next() {
		var name, text string
		var number int
		if err := rows.Scan(&name, &text, &number); err != nil {
			return 0, nil, err
		}
		if name == "" {
			version = number
		} else {
			objects[name] = text
		}
	}
	return version, objects, rows.Err()
}

// Examine looks whether the database is one that this version can read, and holds what this version
// makes and nothing else: a view that was replaced, a trigger that is gone or was added, would show
// or do something else than what was written. What is not as it should be is damage; made tells
// whether there is anything in it.
func (d *Database) Examine(ctx context.Context) (found bool, err error) {
	var version int
	var objects map[string]string
	err = d.read(func(db *sql.DB) (err error) {
		version, objects, err = objectsOf(ctx, db)
		return err
	})
	switch {
	case err != nil:
		return false, Damaged(err)
	case version == 0 && len(objects) == 0:
		return false, nil
	case version > schemaVersion:
		return false, fmt.Errorf("version %d was written by a newer jobd; this one knows version %d", version, schemaVersion)
	case version == 1 || version == 2:
		return false, fmt.Errorf("version %d was written before the first release, and is not read any more: "+
			"let the jobd that wrote it end its jobs, then move the folder away", version)
	case version != schemaVersion:
		return false, &journal.DamagedError{Detail: fmt.Sprintf("it claims to be of version %d", version)}
	}
	return true, compareSchema(objects)
}

// compareSchema tells what of a database's definitions is missing, was changed or does not belong
// there.
func compareSchema(objects map[string]string) error {
	expected, err := made()
	if err != nil {
		return fmt.Errorf("make the schema to compare with: %w", err)
	}
	ours := 0
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		switch text, there := objects[name]; {
		case !there:
			wrong = append(wrong, "the "+name+" is missing")
		case text != expected[name]:
			wrong = append(wrong, "the "+name+" was changed")
		default:
			ours++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if _, known := expected[name]; !known {
			wrong = append(wrong, "the "+name+" is not jobd's")
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return &journal.DamagedError{Detail: fmt.Sprintf("%d of the %d tables, indexes, triggers and views that it was made with are there: %s",
		ours, len(expected), strings.Join(wrong, ", "))}
}

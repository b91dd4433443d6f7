package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"jobd/store"
	"jobd/store/internal/rule"
)

// Findings implements store.Inspector. A file that does not exist is not made: then only its folder is looked at.
func (t *Table) Findings(ctx context.Context, targets []string) ([]store.Finding, error) {
	if found, isNew := t.inspectFile(); isNew || len(found) > 0 {
		return found, nil
	}
	var findings []store.Finding
	err := t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (_ bool, err error) {
		findings, _, err = t.lookThrough(ctx, tx, targets)
		return false, err
	})
	if err != nil && len(findings) == 0 {
		findings = append(findings, t.found(err))
	}
	return findings, err
}

// lookThrough examines the table in a transaction, faults first; isNew tells that the file is empty. An error is among the findings.
func (t *Table) lookThrough(ctx context.Context, tx *sql.Tx, targets []string) (findings []store.Finding, isNew bool, err error) {
	var things int
	err = tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_schema").Scan(&things)
	if err == nil && things == 0 {
		return nil, true, nil
	}
	seen := &inspection{}
	if err == nil {
		seen, err = t.inspect(ctx, tx)
	}
	if err == nil && !seen.IsFaulty() {
		err = t.findNames(ctx, tx, targets, seen)
	}
	if err != nil {
		seen.List = append(seen.List, t.found(err))
	}
	rule.FaultsFirst(seen.List)
	return seen.List, false, err
}

// found is an error as a finding.
func (t *Table) found(err error) store.Finding {
	return store.Finding{Severity: store.Fault, Where: "file " + t.path, What: err.Error()}
}

// findNames adds the targets that can't be served.
func (t *Table) findNames(ctx context.Context, tx *sql.Tx, targets []string, seen *inspection) error {
	unfit, err := t.alike(ctx, tx, targets)
	for _, name := range slices.Sorted(maps.Keys(unfit)) {
		seen.Unserved(name, unfit[name], "")
	}
	return err
}

// isKernels tells whether a folder is one of /proc or /sys: it may seem to take files, and takes none.
func isKernels(dir string) bool {
	var system unix.Statfs_t
	return unix.Statfs(dir, &system) == nil && (system.Type == unix.PROC_SUPER_MAGIC || system.Type == unix.SYSFS_MAGIC)
}

// inspectFile looks at what can be known without opening the file, which would make it; isNew tells that there is none.
func (t *Table) inspectFile() (found []store.Finding, isNew bool) {
	fault := func(what, remedy string) []store.Finding {
		return []store.Finding{{Severity: store.Fault, Where: "file " + t.path + " (sqlite_path)", What: what, Remedy: remedy}}
	}
	dir := filepath.Dir(t.path)
	info, err := os.Stat(t.path)
	isNew = errors.Is(err, fs.ErrNotExist)
	switch {
	case err == nil && info.IsDir():
		return fault("it is a folder", "name a file in it"), false
	case err == nil && !info.Mode().IsRegular():
		return fault("it is no regular file", "name one, or a path where there is none yet"), false
	case err != nil && !isNew:
		return fault(err.Error(), "let this program's user enter the folders on the way to it"), false
	}
	folder, err := os.Stat(dir)
	switch {
	case err != nil || !folder.IsDir():
		return fault("there is no folder "+dir, "mkdir "+dir+", and give it to this program's user"), isNew
	case isKernels(dir):
		return fault("no file can be made in folder "+dir+", which is the kernel's", "name a file on a disk"), isNew
	case unix.Access(dir, unix.W_OK|unix.X_OK) != nil:
		return fault("this program's user may not write in folder "+dir+", where SQLite needs files beside it", "give the folder to that user"), isNew
	case !isNew && unix.Access(t.path, unix.R_OK|unix.W_OK) != nil:
		return fault("this program's user may not read and write it", "give the file to that user"), false
	}
	return nil, isNew
}

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"jobd/store"
)

// inspectFile looks at what can be known without opening the file, which would make it; isNew tells
// that there is none.
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
	case unix.Access(dir, unix.W_OK|unix.X_OK) != nil:
		return fault("this program's user may not write in folder "+dir+", where SQLite needs files beside it", "give the folder to that user"), isNew
	case !isNew && unix.Access(t.path, unix.R_OK|unix.W_OK) != nil:
		return fault("this program's user may not read and write it", "give the file to that user"), false
	}
	return nil, isNew
}

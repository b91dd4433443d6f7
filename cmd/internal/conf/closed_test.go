package conf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
)

func TestErrorsAboutSomethingElseAreNotOfClosedFolders(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		errors.New("other"), fs.ErrPermission, &fs.PathError{Op: "open", Path: "/a", Err: syscall.ENOSPC},
	} {
		if got := Closed(err, "/a"); got != nil {
			t.Errorf("%v became %v", err, got)
		}
	}
}

// A file that this program's user may not read is told with who that is and whose the file is.
func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "testd.conf")
	must.Do(t, os.WriteFile(path, nil, 0o200))
	me := userName(os.Geteuid())
	for file, want := range map[string]string{
		path:         "user " + me + " may not read it (it is " + me + "'s, mode 0200)",
		path + "/in": "a folder on the way to it is closed to user " + me + "; chmod o+x opens it",
	} {
		if err := unreadable(file, &fs.PathError{Op: "open", Path: file, Err: syscall.EACCES}); err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := unreadable(path, errors.New("other")); !strings.Contains(err.Error(), "other") {
		t.Errorf("another error became %v", err)
	}
}

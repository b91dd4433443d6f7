package conf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/cmd/internal/exit"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func TestErrorsAboutSomethingElseAreNotOfClosedFolders(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		errors.New("other"), fs.ErrPermission, &fs.PathError{Op: "open", Path: "/a", Err: syscall.ENOSPC},
	} {
		check.Do(t, Closed(err, "/a"), "%v became", err)
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

func TestVersion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		out  string
		code int
		err  string
	}{
		"alone":             {[]string{"--version"}, "1.2.3\n", exit.Success, "version shown"},
		"verbose":           {[]string{"--version", "--verbose"}, "demo 1.2.3\ncommit: abc\n", exit.Success, "version shown"},
		"the other way":     {[]string{"--verbose", "--version"}, "demo 1.2.3\ncommit: abc\n", exit.Success, "version shown"},
		"verbose alone":     {[]string{"--verbose"}, "", exit.Usage, "--verbose goes with --version"},
		"before wrong keys": {[]string{"--version", "--verbose", "--nonsense"}, "demo 1.2.3\ncommit: abc\n", exit.Success, "version shown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := New(Program{Name: "demo", Version: "1.2.3", Build: "demo 1.2.3\ncommit: abc"}).Parse(c.args, nil, &out)
			if exit.Code(err) != c.code || err == nil || !strings.Contains(err.Error(), c.err) || out.String() != c.out {
				t.Errorf("printed %q, error %v (code %d)", out.String(), err, exit.Code(err))
			}
		})
	}
}

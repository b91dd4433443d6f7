package conf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file that this program's user may not read is told with who that is, whose the file is, and the
// command that mends it.
func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "testd.conf")
	if err := os.WriteFile(path, nil, 0o200); err != nil {
		t.Fatal(err)
	}
	me := userName(os.Geteuid())
	for file, want := range map[string]string{
		path:         "config " + path + ": user " + me + " may not read it (it is " + me + "'s, mode 0200); chmod 600 " + path,
		path + "/in": "config " + path + "/in: a folder on the way to it is closed to user " + me + "; chmod o+x opens it",
	} {
		set := New(Program{Name: "testd", File: file})
		err := set.explainFile(&fs.PathError{Op: "open", Path: file, Err: syscall.EACCES})
		if err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	other := errors.New("other")
	if err := New(Program{}).explainFile(other); !errors.Is(err, other) {
		t.Errorf("another error became %v", err)
	}
}

// The user whose file it is not is named in the command.
func TestMendModeOfSomebodyElsesFile(t *testing.T) {
	t.Parallel()
	path := "/proc/1/cmdline" // the administrator's
	if os.Geteuid() == 0 {
		path = filepath.Join(t.TempDir(), "testd.conf")
		const somebody = 12345
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, somebody, somebody)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	set := New(Program{Name: "testd", File: path})
	if got, want := set.mendMode(info), "chown "+userName(os.Geteuid())+" "+path+" && chmod 600 "+path; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

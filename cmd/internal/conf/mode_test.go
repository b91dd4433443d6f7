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

// seenAs is a file as it is seen by somebody.
type seenAs struct {
	fs.FileInfo // nothing else is asked
	mode        fs.FileMode
	owner       syscall.Stat_t
}

func (s seenAs) Mode() fs.FileMode { return s.mode }
func (s seenAs) Sys() any          { return &s.owner }

// The command leaves the file to those who read it: a daemon that reads it as one of its group is not
// locked out by the administrator, and nobody is told to take a daemon's file who may become the daemon.
func TestCommandThatMendsAFile(t *testing.T) {
	t.Parallel()
	const root, daemon, me, nobodys = 0, 1, 54321, 12345 // daemon is an account and a group of any Linux
	for name, test := range map[string]struct {
		user, owner, group int
		mode               fs.FileMode
		want               string
	}{
		"one's own":                            {me, me, me, 0o644, "chmod 600 /c"},
		"one's own, and its group's":           {me, me, daemon, 0o644, "chmod 640 /c"},
		"root's":                               {me, root, root, 0o600, "chown 54321 /c && chmod 600 /c"},
		"root's, and a daemon's group's":       {me, root, daemon, 0o640, "user daemon may: sudo -u daemon, and the same command"},
		"everybody's, and its group's":         {me, root, daemon, 0o644, "chown 54321 /c && chmod 600 /c"},
		"of a group without an account":        {me, root, nobodys, 0o640, "chown 54321 /c && chmod 600 /c"},
		"root's, asked by root":                {root, root, root, 0o644, "chmod 600 /c"},
		"a group's, asked by root":             {root, root, daemon, 0o644, "chmod 640 /c"},
		"a daemon's own, asked by root":        {root, daemon, daemon, 0o604, "chmod 600 /c"},
		"a daemon's, asked by the daemon":      {daemon, daemon, daemon, 0o644, "chmod 600 /c"},
		"a daemon's group's, asked by the one": {daemon, root, daemon, 0o600, "chown daemon /c && chmod 600 /c"},
	} {
		info := seenAs{mode: test.mode, owner: syscall.Stat_t{Uid: uint32(test.owner), Gid: uint32(test.group)}}
		if got := mendFor(test.user, test.user, "/c", info); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

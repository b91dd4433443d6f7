package conf

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
)

// The command gives a user their folder: with all that is in it, or anew where it can't be made.
func TestCommandThatOpensAFolder(t *testing.T) {
	t.Parallel()
	const root, daemon, me = 0, 1, 54321
	for name, test := range map[string]struct {
		user, owner int
		at, want    string
	}{
		"somebody else's":          {me, root, "/a/b", "chown -R 54321 /a/b"},
		"a file of somebody's":     {daemon, root, "/a/b/lock", "chown -R daemon /a/b"},
		"one's own":                {me, me, "/a/b", "chmod -R u+rwX /a/b"},
		"the one above":            {me, root, "/a", "install -d -o 54321 -m 700 /a/b"},
		"the one above, one's own": {me, me, "/", "install -d -o 54321 -m 700 /a/b"},
	} {
		info := seenAs{owner: syscall.Stat_t{Uid: uint32(test.owner)}}
		if got := mendFolder(test.user, test.at, "/a/b", info); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// Regression: chown -R changes nothing behind a link, and a shell takes a blank for the end of a name.
func TestCommandsThatOpenStrangeFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	strange := filepath.Join(dir, "it's mine")
	must.Do(t, os.Mkdir(strange, 0o700))
	link := filepath.Join(dir, "link")
	must.Do(t, os.Symlink(strange, link))
	command := mendFolder(os.Geteuid(), link, link, seenAs{owner: syscall.Stat_t{Uid: uint32(os.Geteuid())}})
	must.Do(t, os.Chmod(strange, 0o500))
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	if info, err := os.Stat(strange); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("behind %s it is %v, %v", command, info.Mode(), err)
	}
}

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

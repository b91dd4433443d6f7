package conf

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"
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

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/store/storetest/must"
)

// An operator's own file is looked at like a daemon's: who else reads it, and what is in it that was hardly meant.
func TestOwnFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), ".jobctl.conf")
	text := "password = hunter2#x\nmaster = yes\nmysql_host = db\n"
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	must.Do(t, os.Chmod(path, 0o644))
	set := newSet([]string{"HOME=" + filepath.Dir(path)}, nil, nil)
	var c config
	c.register(set)
	must.Do(t, set.Parse(nil, []string{"JOBCTL_TIMEUOT=1"}, t.Output()))
	want := []string{
		"environment JOBCTL_TIMEUOT: unknown, and not used; the nearest known one is JOBCTL_TIMEOUT",
		path + ":1: password: it ends before its #, with which a comment begins; allowed are quotes around the whole value, or blanks before and behind the # of a comment",
		path + ":3: unknown key mysql_host is not used",
		path + ":2: master: its value counts as false; allowed are 1 and true, 0 and false",
		path + ": everybody on this host can read it (mode 0644), and there is a password in it (password); chmod o-rwx " + path,
	}
	if diff := cmp.Diff(want, set.Warnings()); diff != "" || c.master || set.Err() != nil {
		t.Errorf("%+v, %v (-want +got):\n%s", c, set.Err(), diff)
	}
}

package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"jobd/store/storetest/must"
)

// What is looked at with an account's rights is what its user and its groups may see, and nothing of that
// stays.
func TestLook(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root looks with another account's rights")
	}
	folder := t.TempDir()
	for _, open := range []string{filepath.Dir(folder), folder} {
		must.Do(t, os.Chmod(open, 0o755))
	}
	at := func(name string, uid, gid int, mode fs.FileMode) string {
		path := filepath.Join(folder, name)
		must.Do(t, errors.Join(os.WriteFile(path, nil, mode), os.Chown(path, uid, gid)))
		return path
	}
	account := &Account{Name: "app", UID: 20001, GID: 20002, Groups: []uint32{20003}}
	for path, want := range map[string]string{
		at("user", 20001, 0, 0o600):  "",
		at("group", 0, 20002, 0o640): "",
		at("more", 0, 20003, 0o640):  "",
		at("other", 0, 0, 0o640):     "as user app: open " + folder + "/other: permission denied",
	} {
		err := account.Look(func() error {
			_, err := os.ReadFile(path)
			return err
		})
		if got := errorText(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if _, err := os.ReadFile(path); err != nil {
			t.Errorf("after that: %v", err)
		}
	}
	if err := account.Look(func() error { return account.Look(func() error { return nil }) }); err != nil {
		t.Errorf("one inside of another: %v", err)
	}
	groups, err := os.Getgroups()
	if err != nil || slices.Contains(groups, 20003) {
		t.Errorf("the groups are %v, %v", groups, err)
	}
	if err := (*Account)(nil).Look(func() error { return fs.ErrClosed }); err != fs.ErrClosed {
		t.Errorf("without an account: %v", err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimSpace(err.Error())
}

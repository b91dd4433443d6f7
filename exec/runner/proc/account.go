package proc

import (
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Account is whose rights a job has.
type Account struct {
	Name   string   `json:"name"` // for people
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"` // the supplementary ones
}

// Credential is the account, for a process that is started.
func (a *Account) Credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.UID, Gid: a.GID, Groups: a.Groups}
}

// Look calls look with the account's rights to files, and to nothing else: whose this process is, and who
// may signal it, does not change. Without an account it is called as it is.
func (a *Account) Look(look func() error) (err error) {
	if a == nil {
		return look()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	groups, err := unix.Getgroups()
	if err != nil {
		return err
	}
	theirs := make([]int, len(a.Groups))
	for i, group := range a.Groups {
		theirs[i] = int(group)
	}
	if err := unix.Setgroups(theirs); err != nil {
		return a.wrap(err)
	}
	defer func() { _ = unix.Setgroups(groups) }() // what could be changed can be changed back
	gid, _ := unix.SetfsgidRetGid(int(a.GID))
	defer func() { _ = unix.Setfsgid(gid) }()
	uid, _ := unix.SetfsuidRetUid(int(a.UID))
	defer func() { _ = unix.Setfsuid(uid) }()
	if now, _ := unix.SetfsuidRetUid(-1); now != int(a.UID) {
		return a.wrap(unix.EPERM)
	}
	return a.wrap(look())
}

// wrap says whose rights an error is about.
func (a *Account) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("as user %s: %w", a.Name, err)
}

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What a process may do: the account that it has, the capabilities that jobs' accounts need, and
// whether a program could be executed.

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

// The capabilities of worker and runner are three at most, and there so that jobs can have an account of
// their own. A job never has one: whatever a process executes begins with those that are ambient, so each
// of ours makes none ambient (KeepCapabilities), but for the runner that a worker starts and for the program
// that takes this one's place.

// usedCapabilities are those that other accounts for jobs need: to change to them, and to signal them.
var usedCapabilities = []struct {
	name string
	is   uintptr
}{{"CAP_SETUID", unix.CAP_SETUID}, {"CAP_SETGID", unix.CAP_SETGID}, {"CAP_KILL", unix.CAP_KILL}}

// capabilities are those of a thread. All that we use are in the first half.
type capabilities [2]unix.CapUserData

// The kernel writes to it only where it knows no such version.
var capabilityHeader = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}

func capabilitiesHere() (c capabilities, err error) {
	err = os.NewSyscallError("capget", unix.Capget(&capabilityHeader, &c[0]))
	return c, err
}

func (c capabilities) set() error {
	return os.NewSyscallError("capset", unix.Capset(&capabilityHeader, &c[0]))
}

// KeepCapabilities keeps the capabilities of this process, on all of its threads, from whatever it
// executes. What is not inheritable is not ambient either.
func KeepCapabilities() error {
	c, err := capabilitiesHere()
	if err != nil || c[0].Inheritable|c[1].Inheritable == 0 {
		return err
	}
	c[0].Inheritable, c[1].Inheritable = 0, 0
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&capabilityHeader)), uintptr(unsafe.Pointer(&c[0])), 0)
	if errno != 0 {
		return fmt.Errorf("keep capabilities from jobs: %w", errno)
	}
	return nil
}

// MissingCapabilities names those without which no job can have another account.
func MissingCapabilities() (names []string) {
	c, _ := capabilitiesHere() // without it none is there
	for _, used := range usedCapabilities {
		if c[0].Effective&(1<<used.is) == 0 {
			names = append(names, used.name)
		}
	}
	return names
}

// PassedCapabilities are those that a successor of this process gets from it, which has them ambient. What
// root executes has them anyway.
func PassedCapabilities() (passed []uintptr) {
	c, _ := capabilitiesHere()
	for _, used := range usedCapabilities {
		if os.Geteuid() != 0 && c[0].Permitted&(1<<used.is) != 0 {
			passed = append(passed, used.is)
		}
	}
	return passed
}

// PassCapabilities calls execute, which puts a successor in this process's place.
func PassCapabilities(execute func() error) error {
	passed := PassedCapabilities()
	if len(passed) == 0 {
		return execute()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := capabilitiesHere()
	if err != nil {
		return err
	}
	defer func() { _ = c.set() }() // less may always be set
	raised := c
	for _, one := range passed {
		raised[0].Inheritable |= 1 << one
	}
	if err := raised.set(); err != nil {
		return err
	}
	for _, one := range passed {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, one, 0, 0); err != nil {
			return os.NewSyscallError("prctl", err)
		}
	}
	return execute()
}

// Whether a program could be executed, and in words why not: where the system says "no such file" of a
// script, it may be the script's interpreter that is missing.

// Check looks at a program, which will run in a folder, and at its interpreter. It executes neither,
// and says what is wrong with it as far as that can be seen, without its name.
func Check(dir, path string) error {
	at := path
	if !filepath.IsAbs(path) {
		at = filepath.Join(dir, path)
	}
	info, err := os.Stat(at)
	switch {
	case err != nil:
		return cause(err)
	case info.IsDir():
		return errors.New("it is a folder")
	case !info.Mode().IsRegular():
		return errors.New("it is no file")
	case !Executable(at):
		return fmt.Errorf("%w: it is not executable for this account, or is on a noexec mount", unix.EACCES)
	}
	return checkHead(at)
}

// cause is what the system said, without the name of the call.
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// Executable tells whether this account may execute a file, or search a folder.
func Executable(path string) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) == nil
}

// headSize is how much of a program Linux reads to know what it is.
const headSize = 256

// checkHead looks at what a script says of its interpreter. What can't be read may be executable all the same.
func checkHead(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	head := make([]byte, headSize)
	n, err := io.ReadFull(file, head)
	if err != nil && n == 0 && !errors.Is(err, io.EOF) {
		return nil
	}
	line, script := bytes.CutPrefix(head[:n], []byte("#!"))
	if !script && bytes.ContainsRune(line, 0) {
		return nil // it is a program
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' })
	if !script || len(words) == 0 {
		return fmt.Errorf("%w: it has no #! line that names its interpreter, as in #!/bin/sh", unix.ENOEXEC)
	}
	if _, err := os.Stat(words[0]); err != nil && filepath.IsAbs(words[0]) { // %q shows the end of a line as in Windows
		return fmt.Errorf("it names an interpreter that can't be executed: %q: %w", words[0], cause(err))
	}
	return nil
}

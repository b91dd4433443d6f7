package conf

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/peterbourgon/ff/v3"
)

// readFile reads the file, where there is one. What is no regular file is not read: a pipe or a device may never end.
func (s *Set) readFile() error {
	if s.path == "" {
		return nil
	}
	info, err := os.Stat(s.path)
	target, notLink := os.Readlink(s.path)
	s.flags.Visit(func(f *flag.Flag) { s.absent = s.absent || f.Name == "config" })
	s.missing = errors.Is(err, fs.ErrNotExist)
	s.absent = s.absent && s.missing
	switch {
	case s.missing && notLink == nil:
		s.absent = false
		s.bad("config %s: it is a link to %s, where there is no file", s.path, target)
		return nil
	case s.absent:
		s.bad("config %s: no such file", s.path)
		return nil
	case s.missing, s.path == os.DevNull:
		return nil
	case err == nil && !info.Mode().IsRegular():
		s.bad("config %s: it is not a regular file; allowed: one, a link to one, or /dev/null for none, and nothing else: no folder, no pipe, no device", s.path)
		return nil
	}
	if err := ff.Parse(s.flags, nil, ff.WithConfigFile(s.path), ff.WithConfigFileParser(s.parseFile)); err != nil {
		return fmt.Errorf("config %s: %w", s.path, unreadable(s.path, err))
	}
	return nil
}

// checkMode warns where others than the program's own user can change the file, or read the
// passwords in it.
func (s *Set) checkMode() {
	info, err := os.Stat(s.path)
	if s.path == "" || err != nil || !info.Mode().IsRegular() {
		return
	}
	const (
		othersRead  = 0o004
		othersWrite = 0o002
	)
	switch mode := info.Mode().Perm(); {
	case mode&othersWrite != 0:
		s.warn("%s: everybody on this host can change it (mode %04o); %s", s.path, mode, closing(s.path))
	case mode&othersRead != 0 && s.secretInFile() != "":
		s.warn("%s: everybody on this host can read it (mode %04o), and there is a password in it (%s); %s",
			s.path, mode, s.secretInFile(), closing(s.path))
	}
}

// closing is the command that closes a file to those who are neither its owner nor of its group.
func closing(path string) string { return "chmod o-rwx " + path }

// secretInFile is the first key whose value in the file is a password; "" if there is none.
func (s *Set) secretInFile() string {
	for _, setting := range s.settings {
		if setting.isSecret() && setting.given && setting.place.line > 0 && !setting.place.kept && setting.text != "" {
			return setting.key
		}
	}
	if s.profiles != nil {
		return s.profiles.secret
	}
	return ""
}

// unreadable is why a file can't be read, without its path.
func unreadable(path string, err error) error {
	var cause *fs.PathError
	switch {
	case errors.Is(err, fs.ErrPermission):
		return closedTo("read", path)
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("no such file")
	case errors.As(err, &cause):
		return cause.Err
	}
	return err
}

// closedTo says that this program's user may not do something with a file or a folder, and whose it is.
func closedTo(do, path string) error {
	who := userName(os.Geteuid())
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("a folder on the way to it is closed to user %s; chmod o+x opens it", who)
	}
	owner := userName(int(info.Sys().(*syscall.Stat_t).Uid))
	return fmt.Errorf("user %s may not %s it (it is %s's, mode %04o)", who, do, owner, info.Mode().Perm())
}

// userName is a user's name, or the number where nobody knows one.
func userName(id int) string {
	if found, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return found.Username
	}
	return strconv.Itoa(id)
}

// closedError is an error about a file or folder that is closed to this program's user, in words.
type closedError struct {
	text  string
	cause error
}

func (e *closedError) Error() string { return e.text }
func (e *closedError) Unwrap() error { return e.cause }

// Closed says what an error about a folder of the program's, or about what is in it, means where that
// is closed to this program's user: who that is, whose it is, and the command that mends it. It is nil
// where the error is about something else.
func Closed(err error, folder string) error {
	var refused *fs.PathError
	if !errors.Is(err, fs.ErrPermission) || !errors.As(err, &refused) || os.Geteuid() == 0 {
		return nil
	}
	at, me := refused.Path, userName(os.Geteuid())
	for _, statErr := os.Stat(at); errors.Is(statErr, fs.ErrNotExist) && at != filepath.Dir(at); _, statErr = os.Stat(at) {
		at = filepath.Dir(at)
	}
	mends := "chown -R " + me + " " + folder
	if inside, err := filepath.Rel(folder, at); err != nil || !filepath.IsLocal(inside) {
		mends = "install -d -o " + me + " -m 700 " + folder
	}
	return &closedError{fmt.Sprintf("%s: %v; %s", at, closedTo("write", at), mends), err}
}

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
	"strings"
	"syscall"
)

// errNoFile is about a path at which there is something else than a file.
var errNoFile = errors.New("it is no regular file; allowed is one, a link to one, or /dev/null for none, and nothing else: no pipe, no device, no terminal")

// pathFlag is the flag.Value of --config, from which package ff takes what it opens.
type pathFlag struct{ path *string }

// Set implements flag.Value.
func (f pathFlag) Set(path string) error {
	*f.path = path
	return nil
}

// String gives the path that package ff opens. Reading a pipe or a device may never end, so ff gets
// an empty file in its place, and checkMissing notes the error. A folder fails when it is read.
func (f pathFlag) String() string {
	if f.path == nil {
		return ""
	}
	if !isFile(*f.path) {
		return os.DevNull
	}
	return *f.path
}

// isFile tells whether what is at the path, if anything is, may be read.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular() || info.IsDir() || path == os.DevNull
}

// checkMissing notes an error where a file was named and does not exist, where the path is a link
// that leads nowhere, and where it is no regular file.
func (s *Set) checkMissing() {
	if s.path == "" {
		return
	}
	_, err := os.Stat(s.path)
	s.missing = errors.Is(err, fs.ErrNotExist)
	given := false
	s.flags.Visit(func(f *flag.Flag) { given = given || f.Name == "config" })
	target, notLink := os.Readlink(s.path)
	switch {
	case !isFile(s.path):
		s.bad("config %s: %v", s.path, errNoFile)
	case s.missing && notLink == nil:
		s.bad("config %s: it is a link to %s, where there is no file", s.path, target)
	case s.missing && given:
		s.absent = true
		s.bad("config %s: no such file", s.path)
	}
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
		s.warn("%s: everybody on this host can change it (mode %04o); %s", s.path, mode, mendPath(s.path, info))
	case mode&othersRead != 0 && s.secretInFile() != "":
		s.warn("%s: everybody on this host can read it (mode %04o), and there is a password in it (%s); %s",
			s.path, mode, s.secretInFile(), mendPath(s.path, info))
	}
}

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

// mendPath is the command that leaves a file to those who are to read it. Whose user may read it as one of its group is told that. The
// administrator, who may read all, is told to take the file from nobody: it may be a daemon's, which
// reads it as its owner or as one of its group.
func mendPath(path string, info fs.FileInfo) string {
	return mendFor(os.Geteuid(), os.Getegid(), path, info)
}

func mendFor(me, mine int, path string, info fs.FileInfo) string {
	const groupReads, othersRead = 0o040, 0o004
	chmod := "chmod 600 " + path
	owner, group := ownerOf(info), int(info.Sys().(*syscall.Stat_t).Gid)
	if info.Mode()&groupReads != 0 && group != 0 && group != mine {
		if me == owner || me == 0 {
			return "chmod 640 " + path
		}
		if reader, found := readerOf(group); found && info.Mode()&othersRead == 0 && reader != userName(me) {
			return "user " + reader + " may: sudo -u " + reader + ", and the same command"
		}
	}
	if me == owner || me == 0 {
		return chmod
	}
	return "chown " + userName(me) + " " + path + " && " + chmod
}

// readerOf is the user who has a group's name, as accounts of daemons do.
func readerOf(group int) (name string, found bool) {
	known, err := user.LookupGroupId(strconv.Itoa(group))
	if err != nil {
		return "", false
	}
	account, err := user.Lookup(known.Name)
	return known.Name, err == nil && account.Gid == known.Gid
}

// explainFile says what to do about a file that can't be read.
func (s *Set) explainFile(err error) error {
	switch {
	case errors.Is(err, errTooLong):
		return fmt.Errorf("config %s: %w", s.path, err)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("config %s: it is a folder; allowed is a file, as in: --config %s", s.path, filepath.Join(s.path, s.program.Name+".conf"))
	case !errors.Is(err, fs.ErrPermission):
		return err
	}
	return fmt.Errorf("config %s: %w", s.path, closedTo("read", s.path, func(info fs.FileInfo) string { return mendPath(s.path, info) }))
}

// closedTo says that this program's user may not do something with a file or a folder, whose it is,
// and what mends it.
func closedTo(do, path string, mend func(fs.FileInfo) string) error {
	who := userName(os.Geteuid())
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("a folder on the way to it is closed to user %s; chmod o+x opens it", who)
	}
	return fmt.Errorf("user %s may not %s it (it is %s's, mode %04o); %s", who, do, userName(ownerOf(info)), info.Mode().Perm(), mend(info))
}

// ownerOf is the number of the file's owner.
func ownerOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

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
	at := absolute(refused.Path)
	for _, statErr := os.Stat(at); errors.Is(statErr, fs.ErrNotExist) && at != filepath.Dir(at); _, statErr = os.Stat(at) {
		at = filepath.Dir(at)
	}
	return &closedError{fmt.Sprintf("%s: %v", at, closedTo("write", at, func(info fs.FileInfo) string {
		return mendFolder(os.Geteuid(), at, absolute(folder), info)
	})), err}
}

func absolute(path string) string {
	if all, err := filepath.Abs(path); err == nil {
		return all
	}
	return path
}

// mendFolder is the command, for a user, that opens to them what is at a place in their folder, or on
// the way to it.
func mendFolder(me int, at, folder string, info fs.FileInfo) string {
	inside, err := filepath.Rel(folder, at)
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real // chown follows no link
	}
	if folder = strings.ReplaceAll(folder, "'", `'\''`); strings.ContainsFunc(folder, isForShells) {
		folder = "'" + folder + "'"
	}
	switch {
	case err != nil || !filepath.IsLocal(inside):
		return "install -d -o " + userName(me) + " -m 700 " + folder
	case ownerOf(info) == me:
		return "chmod -R u+rwX " + folder
	}
	return "chown -R " + userName(me) + " " + folder
}

// isForShells tells a character that a shell would not take as it is.
func isForShells(r rune) bool { return strings.ContainsRune(" \t\n'\"\\$`*?[]{}()<>|&;#~!", r) }

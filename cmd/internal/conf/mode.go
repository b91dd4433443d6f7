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
)

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
		s.errs = append(s.errs, fmt.Errorf("config %s: %w", s.path, errNoFile))
	case s.missing && notLink == nil:
		s.errs = append(s.errs, fmt.Errorf("config %s: it is a link to %s, where there is no file", s.path, target))
	case s.missing && given:
		s.absent = fmt.Errorf("config %s: no such file", s.path)
		s.errs = append(s.errs, s.absent)
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
		s.warnings = append(s.warnings, fmt.Sprintf("%s: everybody on this host can change it (mode %04o); %s", s.path, mode, s.mendMode(info)))
	case mode&othersRead != 0 && s.secretInFile() != "":
		s.warnings = append(s.warnings, fmt.Sprintf("%s: everybody on this host can read it (mode %04o), and there is a password in it (%s); %s",
			s.path, mode, s.secretInFile(), s.mendMode(info)))
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

// mendMode is the command that leaves the file to those who are to read it.
func (s *Set) mendMode(info fs.FileInfo) string { return mendPath(s.path, info) }

// mendPath is that command for any file. Whose user may read it as one of its group is told that. The
// administrator, who may read all, is told to take the file from nobody: it may be a daemon's, which
// reads it as its owner or as one of its group.
func mendPath(path string, info fs.FileInfo) string {
	return mendFor(os.Geteuid(), os.Getegid(), path, info)
}

func mendFor(me, mine int, path string, info fs.FileInfo) string {
	const groupReads, othersRead = 0o040, 0o004
	chmod := "chmod 600 " + path
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return chmod
	}
	owner, group := int(stat.Uid), int(stat.Gid)
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
	return fmt.Errorf("config %s: %w", s.path, closedTo("read", s.path, s.mendMode))
}

// closedTo says that this program's user may not do something with a file or a folder, whose it is,
// and what mends it.
func closedTo(do, path string, mend func(fs.FileInfo) string) error {
	who := userName(os.Geteuid())
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("a folder on the way to it is closed to user %s; chmod o+x opens it", who)
	}
	owner := "somebody else"
	if id, known := fileOwner(info); known {
		owner = userName(id)
	}
	return fmt.Errorf("user %s may not %s it (it is %s's, mode %04o); %s", who, do, owner, info.Mode().Perm(), mend(info))
}

// fileOwner is the number of the file's owner.
func fileOwner(info fs.FileInfo) (id int, known bool) {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return int(stat.Uid), true
}

// userName is a user's name, or the number where nobody knows one.
func userName(id int) string {
	if found, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return found.Username
	}
	return strconv.Itoa(id)
}

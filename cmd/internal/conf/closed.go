package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

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
	switch owner, known := fileOwner(info); {
	case err != nil || !filepath.IsLocal(inside):
		return "install -d -o " + userName(me) + " -m 700 " + folder
	case known && owner == me:
		return "chmod -R u+rwX " + folder
	}
	return "chown -R " + userName(me) + " " + folder
}

// isForShells tells a character that a shell would not take as it is.
func isForShells(r rune) bool { return strings.ContainsRune(" \t\n'\"\\$`*?[]{}()<>|&;#~!", r) }

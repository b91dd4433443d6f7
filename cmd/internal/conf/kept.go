package conf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"
)

// credentials is the variable with the folder of the credentials that systemd gives a unit.
const credentials = "CREDENTIALS_DIRECTORY"

// unread stands for a password that can't be read: that there is none is not told then, too.
const unread = "(unread)"

// Unread tells whether a password is in a file that can't be read, which is one of the mistakes then.
func Unread(password string) bool { return password == unread }

// mostKept is the longest password, in bytes, that a file may hold.
const mostKept = 4096

// Kept adds a second key beside a password's: KEY_file names a file that holds the password. It is
// read when the configuration is, and again with it. Where both keys are given, the one goes before
// that was given closer to the command line; both in one place are an error.
func (s *Setting) Kept() *Setting {
	s.kept = true
	file := s.set.AddNamed(s.key+"_file", "", "a [file](#passwords-in-files), or a credential's name, that holds `"+s.within()+"`",
		func([]string) Decode { return NonEmpty(new(string)) })
	file.live, file.group = s.live, s.group
	return s
}

// readKept reads the passwords that files hold.
func (s *Set) readKept() {
	for _, setting := range s.settings {
		if !setting.kept {
			continue
		}
		if setting.given && !utf8.ValidString(setting.text) {
			s.Bad(setting.key, notUTF8)
		}
		file := s.byKey[setting.key+"_file"]
		if !file.given || file.text == "" {
			continue
		}
		switch mine, files := setting.rank(), file.rank(); {
		case mine > files:
			continue
		case mine == files:
			s.Bad(file.key, setting.key+" is given, too; allowed: one of the two")
			continue
		}
		password, err := s.kept(file.text)
		if err != nil {
			s.Bad(file.key, err.Error())
			password = unread
		}
		setting.text, setting.given, setting.place = password, true, file.place
		setting.place.kept = true
	}
}

// rank tells how close to the command line a value was given; 0: nowhere.
func (s *Setting) rank() int {
	switch {
	case !s.given:
		return 0
	case s.place.line > 0:
		return 1
	case s.place.variable != "":
		return 2
	}
	return 3
}

// kept reads a password from a file.
func (s *Set) kept(path string) (password string, err error) {
	if path, err = s.keptAt(path); err != nil {
		return "", err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is not waited for
	if err == nil {
		defer file.Close()
		password, err = onlyLine(file)
	}
	if errors.Is(err, fs.ErrNotExist) && s.credentials != "" && strings.HasPrefix(path, s.credentials+"/") {
		return "", fmt.Errorf("%s: no such file; the unit's LoadCredential puts it there, under this name", path)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", path, unreadable(path, err))
	}
	return password, err
}

// notUTF8 is about a password that no client could send: messages are in UTF-8.
const notUTF8 = "it is not in UTF-8; allowed: a password in UTF-8"

// onlyLine is the one line of a file. Its end is no part of it, and neither is a byte order mark.
func onlyLine(file *os.File) (string, error) {
	info, err := file.Stat()
	const others = 0o006
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("it is not a regular file; allowed: a regular file, or a link to one")
	case info.Mode().Perm()&others != 0:
		return "", fmt.Errorf("everybody on this host can read or change it (mode %04o); %s", info.Mode().Perm(), closing(file.Name()))
	}
	content, err := io.ReadAll(io.LimitReader(file, mostKept+6)) // with a mark before it, and its end
	if err != nil {
		return "", err
	}
	line := bytes.TrimSuffix(bytes.TrimSuffix(content, []byte("\n")), []byte("\r"))
	line = bytes.TrimPrefix(line, []byte("\ufeff"))
	switch {
	case len(line) == 0 || len(line) > mostKept || bytes.ContainsAny(line, "\n\r\x00"):
		return "", fmt.Errorf("the password must be one line of 1 to %d bytes", mostKept)
	case !utf8.Valid(line):
		return "", errors.New(notUTF8)
	}
	return string(line), nil
}

// keptAt is the path of a file, which may be given as a credential's name.
func (s *Set) keptAt(path string) (string, error) {
	switch {
	case filepath.IsAbs(path):
		return path, nil
	case !filepath.IsLocal(path):
		return "", fmt.Errorf("%q is not allowed; allowed: a path that begins with /, or the name of a credential", path)
	case s.credentials == "":
		return "", fmt.Errorf("%q is not allowed: a credential's name needs $%s, which systemd sets where the unit has LoadCredential; beside a unit that runs: %s=/run/credentials/%s.service; allowed: a path that begins with /", path, credentials, credentials, s.program.Name)
	}
	return filepath.Join(s.credentials, path), nil
}

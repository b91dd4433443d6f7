package proc

// Whether a program could be executed, and in words why not: where the system says "no such file" of a
// script, it may be the script's interpreter that is missing.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

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

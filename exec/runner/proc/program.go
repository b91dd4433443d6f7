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

// mostInterpreters is how many interpreters of interpreters Linux follows.
const mostInterpreters = 4

// Check looks at a program, which will run in a folder, and at its interpreter. It executes neither,
// and says what is wrong with it as far as that can be seen, without its name.
func Check(dir, path string) error { return check(dir, path, 0) }

func check(dir, path string, depth int) error {
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
		return fmt.Errorf("%w: it is not executable for this account, or lies where nothing may be executed", unix.EACCES)
	}
	interpreter, err := interpreterOf(at)
	if err != nil || interpreter == "" || depth >= mostInterpreters {
		return err
	}
	if err := check(dir, interpreter, depth+1); err != nil {
		return fmt.Errorf("it names an interpreter that can't be executed: %s: %w", interpreter, err)
	}
	return nil
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

// interpreterOf is the program that interprets a script; "" where it needs none, or where the script
// can't be read, and may be executable all the same.
func interpreterOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", nil
	}
	defer file.Close()
	head := make([]byte, headSize)
	n, err := io.ReadFull(file, head)
	if err != nil && n == 0 && !errors.Is(err, io.EOF) {
		return "", nil
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("#!")):
		return scriptInterpreter(head[2:])
	case !bytes.ContainsRune(head, 0): // it is text, or empty
		return "", fmt.Errorf("%w: it begins with no #!, which tells what is to run it, as in #!/bin/sh", unix.ENOEXEC)
	}
	return "", nil
}

// scriptInterpreter is the program in a script's first line.
func scriptInterpreter(line []byte) (string, error) {
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' })
	if len(words) == 0 {
		return "", fmt.Errorf("%w: its #! names nothing", unix.ENOEXEC)
	}
	if strings.HasSuffix(words[0], "\r") {
		return "", fmt.Errorf("%w: its first line ends as in Windows, so that it names %q", unix.ENOENT, words[0])
	}
	return words[0], nil
}

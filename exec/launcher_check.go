package exec

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Check looks whether the launcher can be executed, and says what is wrong with it. It executes
// nothing: what only that would tell passes, and the first start tells of it. A service is not looked
// at: whether it is there may change at any moment, and whoever connects to it tells.
func (l Launcher) Check() error {
	if l.Mode.Requests() {
		return nil
	}
	if l.Dir != "" {
		if err := checkFolder(l.Dir); err != nil {
			return fmt.Errorf("working folder: %w", err)
		}
	}
	for _, text := range append(l.Env, l.Words...) {
		if len(text) > longestText {
			return fmt.Errorf("%.40s… has %d bytes; the system takes %d at most", text, len(text), longestText)
		}
	}
	path, err := l.find(l.Words[0])
	if err != nil {
		return err
	}
	return l.checkProgram(path, 0)
}

// longestText is what Linux takes as a variable or as an argument: 32 pages less the byte at its
// end.
const longestText = 32*4096 - 1

// mostInterpreters is how many interpreters of interpreters Linux follows.
const mostInterpreters = 4

func checkFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", dir)
	case !executable(dir):
		return fmt.Errorf("%s: %w", dir, unix.EACCES)
	}
	return nil
}

// checkProgram looks at a program, and at the one that is to interpret it.
func (l Launcher) checkProgram(path string, depth int) error {
	at := l.at(path)
	info, err := os.Stat(at)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, cause(err))
	case info.IsDir():
		return fmt.Errorf("%s is a folder", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file", path)
	case !executable(at):
		return fmt.Errorf("%s: %w: it is not executable for this account, or lies where nothing may be executed", path, unix.EACCES)
	}
	interpreter, err := interpreterOf(at)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if interpreter == "" || depth >= mostInterpreters {
		return nil
	}
	if err := l.checkProgram(interpreter, depth+1); err != nil {
		return fmt.Errorf("%s names an interpreter that can't be executed: %w", path, err)
	}
	return nil
}

// at is where a path leads that the job's process executes.
func (l Launcher) at(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.Dir, path)
}

// cause is what the system said, without the name of the call.
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// executable tells whether this account may execute a file, or search a folder.
func executable(path string) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) == nil
}

// headSize is how much of a program Linux reads to know what it is.
const headSize = 256

// interpreterOf is the program that is to run another one; "" where there is none, or nobody can
// tell: a program that can't be read may be executable all the same.
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
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return loaderOf(file), nil
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

// loaderOf is the loader of a program that is linked dynamically.
func loaderOf(file io.ReaderAt) string {
	program, err := elf.NewFile(file)
	if err != nil {
		return ""
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			name, err := io.ReadAll(io.LimitReader(part.Open(), unix.PathMax))
			if err != nil {
				return ""
			}
			return string(bytes.TrimRight(name, "\x00"))
		}
	}
	return ""
}

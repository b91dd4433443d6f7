package eventlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/journal"
)

// onOwnDisk has a child do something that mounts a file system in a folder, and gives what it said.
func onOwnDisk(t *testing.T, what string) string {
	t.Helper()
	c := newChild(t, what, t.TempDir())
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.Output()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this machine does not let users mount: %v", err)
	}
	if err != nil {
		t.Fatalf("the child ended with %v, and said:\n%s", err, out)
	}
	return string(out)
}

// childStarts opens a new journal and one that is there on disks with ever more room, from none on.
func childStarts() {
	dir := os.Args[1]
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ballast := filepath.Join(dir, "ballast")
	for _, known := range []bool{false, true} {
		for left, opened := 0, false; !opened; left += os.Getpagesize() {
			must(syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
			if known {
				must(childJournal().Close())
			}
			f, err := os.Create(ballast)
			must(err)
			for err == nil {
				_, err = f.Write(make([]byte, os.Getpagesize()))
			}
			info, err := f.Stat()
			must(err)
			must(f.Truncate(info.Size() - int64(left)))
			must(f.Close())
			j, err := Open(context.Background(), Config{Dir: dir})
			text := fmt.Sprint(err)
			told := errors.Is(err, journal.ErrFull) && strings.HasPrefix(text, "journal "+dir+": its disk is full: ") &&
				strings.Contains(text, " KiB are free; make room there: no space left for the journal: ")
			switch {
			case err == nil && left == 0:
				fmt.Println("known:", known, "opened without any room")
			case err != nil && !told:
				fmt.Println("known:", known, "bytes left:", left, "error:", err)
			}
			must(os.Remove(ballast))
			if opened = err == nil; !opened {
				j, err = Open(context.Background(), Config{Dir: dir})
				must(err)
			}
			must(j.Close())
			must(syscall.Unmount(dir, 0))
		}
	}
}

// A start on a full disk says that it is full, and where, whatever it was that found no room; with room
// the journal opens.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	if said := onOwnDisk(t, "start"); said != "" {
		t.Errorf("the child said:\n%s", said)
	}
}

package dbserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// The clock of a server can be set, where it is started with Options.Clock: libfaketime stands
// between the server and the machine, and reads from a file how far ahead the server's clock is.
// What waits for a time to pass goes by the monotonic clock, which is left alone.

// clockFile is its name, in the server's folder.
const clockFile = "clock"

// fakeTimeLibrary is where Debian's package faketime has it, by the machine's sort.
const fakeTimeLibrary = "/usr/lib/*-linux-gnu*/faketime/libfaketimeMT.so.1"

// prepareClock makes the file, and settles what the server's environment needs.
func (s *Server) prepareClock() error {
	found, err := filepath.Glob(fakeTimeLibrary)
	if err == nil && len(found) == 0 {
		err = errors.New("it is not installed (apt-get install faketime, or: make deps)")
	}
	if err != nil {
		return fmt.Errorf("libfaketime: %w", err)
	}
	if !s.IsMariaDB() {
		return errors.New("the clock of a server that runs in a folder of its own can't be set")
	}
	s.env = append(os.Environ(), "LD_PRELOAD="+found[0], "FAKETIME_TIMESTAMP_FILE="+filepath.Join(s.dir, clockFile),
		"FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1")
	return s.SetClock(0)
}

// SetClock sets the clock of a server that was started with Options.Clock ahead of the machine's, or,
// where that is negative, behind it. It counts from the server's next look at its clock on.
func (s *Server) SetClock(ahead time.Duration) error {
	file := filepath.Join(s.dir, clockFile)
	seconds := strconv.FormatFloat(ahead.Seconds(), 'f', 3, 64)
	if ahead >= 0 {
		seconds = "+" + seconds
	}
	err := os.WriteFile(file+".new", []byte(seconds+"\n"), 0o644)
	if err == nil {
		err = os.Rename(file+".new", file) // a server that reads it meanwhile has the one or the other
	}
	if err != nil {
		return fmt.Errorf("set the clock of the database server: %w", err)
	}
	return nil
}

// forgetClock removes what libfaketime leaves in the machine's shared memory.
func forgetClock(pid int) {
	for _, name := range []string{"faketime_shm_", "sem.faketime_sem_"} {
		_ = os.Remove(filepath.Join("/dev/shm", name+strconv.Itoa(pid))) // a server that ends in order removes it
	}
}

package socket

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Whatever the umask, a socket lets in nobody else from its first moment on.
func TestASocketsModeFromItsFirstMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	former := syscall.Umask(0) // of the whole process: nothing runs beside this test
	listener, err := bind(path)
	syscall.Umask(former)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A umask that takes the group's bits away takes none here.
func TestASocketLetsTheGroupIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	former := syscall.Umask(0o077)
	listener, err := Listen(path)
	syscall.Umask(former)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	check.Do(t, listener.Close())
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

// A socket on which somebody listens is that one's; one that a process has left is replaced.
func TestASocketThatIsThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	first := must.Get(bind(path))(t)
	if _, err := Listen(path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a live one: %v", err)
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Errorf("the first one: %v", err)
	} else {
		conn.Close()
	}
	first.Close()
	second := must.Get(Listen(path))(t)
	second.Close()
	if _, err := Listen(filepath.Join(path, "below")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

// Regression: of several that found the same socket left behind, each removed it, and with it what another one
// had just made: that one listened, and nobody reached it.
func TestASocketThatSeveralReplace(t *testing.T) {
	t.Parallel()
	for range 300 {
		path := filepath.Join(t.TempDir(), "s")
		must.Do(t, must.Get(bind(path))(t).Close()) // it stays behind
		made := make(chan net.Listener, 4)
		var all sync.WaitGroup
		for range cap(made) {
			all.Go(func() {
				if listener, err := Listen(path); err == nil {
					made <- listener
				}
			})
		}
		all.Wait()
		close(made)
		must.Equal(t, len(made), 1, "listen on one path")
		must.Do(t, (<-made).Close())
	}
}

// What is no socket stays, though nobody listens there.
func TestAFileInASocketsPlace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	must.Do(t, os.WriteFile(path, []byte("mine"), 0o600))
	if _, err := Listen(path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a file: %v", err)
	}
	text := must.Get(os.ReadFile(path))(t)
	check.Equal(t, string(text), "mine", "it holds %q", text)
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	jobdaemon "jobd/cmd/internal/daemon"
)

// newRestarter is one whose binary does what a script says.
func newRestarter(t *testing.T, script string) *restarter {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "jobd")
	syscall.ForkLock.RLock() // a process that another test starts just then would keep the file open
	err := os.WriteFile(binary, []byte("#!/bin/sh\n"+script+"\n"), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return &restarter{
		next:   jobdaemon.Successor{Program: program, Binary: binary, Args: append(with(), "--port=7082")},
		ending: jobdaemon.NewEnding(),
		served: func() string { return "127.0.0.1:7080" },
	}
}

// The next start says where it will listen, and nothing has been given up by then.
func TestFollow(t *testing.T) {
	t.Parallel()
	r := newRestarter(t, "echo 'jobd 9.9.9'")
	next, err := r.Follow(t.Context())
	if err != nil || next.PID != os.Getpid() || next.Address != "127.0.0.1:7082" {
		t.Errorf("next %+v, %v", next, err)
	}
	if r.ending.Restarting() {
		t.Error("it restarts though nobody said so")
	}
}

// What the next start finds wrong is told.
func TestFollowIsRefused(t *testing.T) {
	t.Parallel()
	r := newRestarter(t, "echo 'jobd 9.9.9'; echo 'wrong    launcher: gone'; exit 1")
	for range 2 {
		if _, err := r.Follow(t.Context()); fmt.Sprint(err) != "launcher: gone" {
			t.Errorf("error %v", err)
		}
	}
}

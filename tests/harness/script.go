package harness

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Script writes an executable shell script in a folder of its own and gives its path.
func Script(t testing.TB, body string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "launch.sh")
	// A process that is forked meanwhile would have the file open for writing for a moment, and a
	// file that somebody has open for writing can't be executed (ETXTBSY).
	syscall.ForkLock.RLock()
	err := os.WriteFile(file, []byte("#!/bin/sh\n"+body+"\n"), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatalf("write the launcher: %v", err)
	}
	return file
}

// Touch creates an empty file: how tests tell a waiting launcher to go on.
func Touch(t testing.TB, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatalf("touch: %v", err)
	}
}

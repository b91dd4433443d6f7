package exec_test

import (
	"os"
	"path/filepath"
	"testing"

	jobexec "jobd/exec"
	"jobd/store/storetest/must"
)

// No shell reads the launcher: what only a shell understands is not found, and told without the value of a
// variable, which may be a password.
func TestWordsOfAShellAreNoCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "A=b"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, "A=b/run"), []byte("#!/bin/sh\n"), 0o700))
	for command, want := range map[string]string{
		"cd":                "cd: not found in PATH",
		"APP_ENV=hunter2":   "APP_ENV=…: not found in PATH",
		"APP_DIR=/srv/site": "APP_DIR=…: not found in PATH",
		"./A=b/run":         "",
		"sh":                "",
	} {
		l := jobexec.Launcher{Words: []string{command, "{id}"}, Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}}
		got := ""
		if err := l.Check(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

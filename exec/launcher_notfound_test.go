package exec_test

import (
	"os"
	"path/filepath"
	"testing"

	jobexec "jobd/exec"
)

// No shell reads the launcher: what only a shell understands is told with the setting that does the
// same, and without the value of a variable, which may be a password.
func TestWordsOfAShellAreNoCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "A=b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "A=b/run"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	const noShell = ": not found in PATH; no shell reads the launcher: "
	for command, want := range map[string]string{
		"cd":                "cd" + noShell + "the key launcher.cwd is the folder that it runs in",
		"APP_ENV=hunter2":   "APP_ENV=…" + noShell + "the key launcher.env.APP_ENV sets the variable",
		"APP_DIR=/srv/site": "APP_DIR=…" + noShell + "the key launcher.env.APP_DIR sets the variable",
		"export":            "export" + noShell + "launcher = sh -c '…' with launcher_split = shell has one",
		"phpx":              "phpx: not found in PATH",
		"1=2":               "1=2: not found in PATH",
		"A=b/run":           "",
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

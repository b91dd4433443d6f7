package audit

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"jobd/tests/harness"
)

var update = flag.Bool("update", false, "write what the commands print into the scripts")

func TestMain(m *testing.M) { harness.MainAtOnce(m, 4) }

// TestSessions plays the auditor's sessions of testdata: each command, and what it prints.
func TestSessions(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(harness.Program(t, "jobctl"))+":"+env.Getenv("PATH"))
			env.Setenv("TZ", "UTC")
			return writeWeek(env.WorkDir)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"replace": replace},
	})
}

// replace changes bytes of a file, wherever they stand: replace FILE OLD NEW. OLD must be there.
func replace(ts *testscript.TestScript, _ bool, args []string) {
	file := ts.MkAbs(args[0])
	content := []byte(ts.ReadFile(args[0]))
	if !bytes.Contains(content, []byte(args[1])) {
		ts.Fatalf("%s does not contain %q", file, args[1])
	}
	ts.Check(os.Chmod(file, 0o600))
	ts.Check(os.WriteFile(file, bytes.ReplaceAll(content, []byte(args[1]), []byte(args[2])), 0o600))
}

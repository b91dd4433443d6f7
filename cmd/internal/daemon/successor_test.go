package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/cmd/internal/daemon"
)

// What the binary on the disk says decides whether this process may be followed by it.
func TestASuccessorIsTriedFirst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ script, want string }{
		"sound":            {"echo 'testd 9.9.9'; echo 'ok       configuration: x'; echo 'warning  y: z'", ""},
		"it would end":     {"echo 'testd 9.9.9'; echo 'wrong    launcher: gone'; echo 'wrong    journal: gone'; exit 1", "launcher: gone\njournal: gone"},
		"asked as a start": {`echo "testd $*"; [ "$*" = '--config x --check=start:127.0.0.1:1' ]`, ""},
		"older":            {"echo 'testd: unknown flag --check' >&2; exit 2", "which is no report of testd: it is no testd, or an older version"},
		"another program":  {"echo hello", `tells "hello\n", which is no report of testd`},
		"another's report": {"echo 'testd-master 9.9.9'; echo 'wrong    x: y'; exit 1", "it is no testd"},
		"it fails":         {"echo 'testd 9.9.9'; exit 7", "exit status 7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binary := script(t, "#!/bin/sh\n"+test.script+"\n")
			err := daemon.Successor{Program: "testd", Binary: binary, Args: []string{"--config", "x"}}.Try(t.Context(), "127.0.0.1:1")
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	err := daemon.Successor{Program: "testd", Binary: filepath.Join(t.TempDir(), "nothing")}.Try(t.Context(), "127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("nothing is there: error %v", err)
	}
}

func script(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	syscall.ForkLock.RLock() // a process that another test starts just then would keep the file open
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

package proc

import (
	"os"
	"path/filepath"
	"testing"
)

// What the system would only say in a word is told so that it can be mended.
func TestWhatCannotBeExecuted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, content := range map[string]string{
		"sound": "#!/bin/sh\n", "orphan": "#!/none -x\n", "windows": "#!/bin/sh\r\n", "text": "exit 0\n", "nameless": "#!\n",
		"by-orphan": "#!" + at("orphan") + "\n",
	} {
		if err := os.WriteFile(at(name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"/bin/sh":       "",
		at("sound"):     "",
		"./sound":       "",
		"./none":        "no such file or directory",
		dir:             "it is a folder",
		at("orphan"):    "it names an interpreter that can't be executed: /none: no such file or directory",
		at("by-orphan"): "it names an interpreter that can't be executed: " + at("orphan") + ": it names an interpreter that can't be executed: /none: no such file or directory",
		at("windows"):   `no such file or directory: its first line ends as in Windows, so that it names "/bin/sh\r"`,
		at("text"):      "exec format error: it begins with no #!, which tells what is to run it, as in #!/bin/sh",
		at("nameless"):  "exec format error: its #! names nothing",
	} {
		got := ""
		if err := Check(dir, path); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

package manualtest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/page"
)

// packages are those that have manual pages, by a pattern; all of them know the flag update, which the
// others refuse.
const packages = "./cmd/job..."

// update has the pages written anew.
var update = flag.Bool("update", false, "write the manual pages anew")

// Check compares pages with the files in a folder, and has mandoc look at them.
func Check(t *testing.T, folder string, pages ...Page) {
	t.Helper()
	for _, p := range pages {
		name := filepath.Join(folder, fmt.Sprintf("%s.%d", p.Name, p.Section))
		want := p.Roff()
		if *update {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the help says (%v): go test %s -run Manual -update writes it anew", name, err, packages)
		}
		if _, err := exec.LookPath("mandoc"); err != nil {
			t.Fatal("mandoc is missing: make deps installs it")
		}
		lint := exec.Command("mandoc", "-T", "lint", "-W", "warning")
		lint.Stdin = bytes.NewReader(want)
		if out, err := lint.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// KeysOf lists the keys of a configuration.
func KeysOf(set *conf.Set) Block {
	var terms []page.Term
	for _, key := range set.Keys() {
		terms = append(terms, page.Term{Name: key.Name, Meaning: Meaning(key)})
	}
	return Block{Terms: terms}
}

// Meaning is what a key is for, with its default.
func Meaning(key conf.Key) string {
	if key.Default == "" {
		return key.Meaning
	}
	return key.Meaning + " (default: " + key.Default + ")"
}

// Flags lists the flags that are no keys.
func Flags(set *conf.Set) Block { return Block{Terms: set.OwnFlags()} }

// FileForm says how all three files are written, and what counts before them.
func FileForm(prefix string) []Section {
	return []Section{{Title: "Form", Blocks: []Block{
		{Text: "A line is key = value, the head of a section, [NAME], or a comment, which begins with ; or #, also behind a value. " +
			"A value may stand in quotes: in double ones with the escapes of JSON, in single ones as it is. A key alone in its line has the value true."},
		{Text: "A boolean is true as 1 or true. A duration is a number of seconds, or has a unit: 500ms, 2m, 30d. A size is a number of bytes, or has a unit: 64KiB, 16MiB."},
		{Text: "Every key is also a flag, with a hyphen for each _, and a variable of the environment: " + prefix + "HOST for host. " +
			"A flag counts before the environment, that before the file, that before the default."},
		{Text: "An unknown key is a warning, which names the nearest known one. What is wrong is told all at once, each with its line and with what is allowed."},
	}}}
}

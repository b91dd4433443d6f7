package manualtest

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/layout"
	"jobd/store/storetest/must"
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
			must.Do(t, os.WriteFile(name, want, 0o644))
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
	var terms []layout.Term
	for _, key := range set.Keys() {
		terms = append(terms, layout.Term{Name: key.Name, Meaning: key.Plain()})
	}
	return Block{Terms: terms}
}

// CheckKeys compares the tables of keys in docs/configuration.md, below the heading of a program, with
// what is declared.
func CheckKeys(t *testing.T, path, program string, set *conf.Set) {
	t.Helper()
	got := must.Get(os.ReadFile(path))(t)
	var want []string
	of, group, within := "", "", false
	for line := range strings.SplitSeq(string(got), "\n") {
		if heading, is := strings.CutPrefix(line, "## "); is {
			of, group = heading, ""
		} else if heading, is := strings.CutPrefix(line, "### "); is {
			group = heading
		}
		isRow := strings.HasPrefix(line, "|")
		switch {
		case of == program && strings.HasPrefix(line, "| key"):
			within = true
			want = append(append(want, line, "|---|---|---|"), rowsOf(set, group)...)
		case !isRow:
			within = false
		}
		if !within {
			want = append(want, line)
		}
	}
	text := strings.Join(want, "\n")
	if *update && text != string(got) {
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	} else if text != string(got) {
		t.Errorf("%s does not have the keys of %s as they are declared: go test %s -run Manual -update writes them anew", path, program, packages)
	}
}

// rowsOf are the rows of the keys of a group; of none, where a program has all in one table, of all.
func rowsOf(set *conf.Set, group string) (rows []string) {
	for _, key := range set.Keys() {
		if key.Group == "-" || group != "" && key.Group != group {
			continue
		}
		name := "`" + strings.TrimPrefix(key.Name, "[target NAME] ") + "`"
		if line, listed := strings.CutPrefix(key.Name, "[targets] "); listed {
			name = "`[targets]` `" + line + "`"
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |", name, cmp.Or(key.Default, key.Without, "–"), key.Meaning))
	}
	return rows
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
			"A flag overrides the environment, then come the file and the default."},
		{Text: "An unknown key is a warning, which names the nearest known one. What is wrong is told all at once, each with its line and with what is allowed."},
	}}}
}

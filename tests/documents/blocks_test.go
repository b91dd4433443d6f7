package documents

import (
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// takers are those who say whether they understand a block: a program that reads it on stdin. What is
// nil is looked at by a test of its own.
var takers = map[string][]string{
	"sh": {"sh", "-n"}, "bash": {"bash", "-n"}, "zsh": {"zsh", "-n"},
	"python": {"python3", "-c", "import ast, sys; ast.parse(sys.stdin.read())"},
	"ini":    nil, "sql": nil, "json": nil, "console": nil,
	// Run by the tests of the clients, and of the metrics.
	"php": nil, "js": nil, "javascript": nil, "ruby": nil, "go": nil, "yaml": nil, "promql": nil,
	// For people.
	"": nil, "text": nil,
}

func TestBlocksAreUnderstood(t *testing.T) {
	t.Parallel()
	for _, b := range blocks(t) {
		taker, known := takers[b.language]
		if !known {
			t.Errorf("%s:%d: a block of %q: nobody is known who takes it", b.page, b.line, b.language)
		}
		text := b.text
		if b.language == "console" {
			taker, text = takers["sh"], strings.Join(typed(b.text), "\n")
			if text == "" {
				t.Errorf("%s:%d: a block of console without a command: $ …", b.page, b.line)
			}
		}
		if taker == nil {
			continue
		}
		cmd := exec.Command(taker[0], taker[1:]...)
		cmd.Stdin = strings.NewReader(text)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s:%d: %s takes this block for wrong: %v: %s", b.page, b.line, taker[0], err, output)
		}
	}
}

// typed are the commands of a block with answers.
func typed(text string) (commands []string) {
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ "); ok {
			commands = append(commands, command)
		}
	}
	return commands
}

var (
	// asked finds jobctl with its words, up to what ends a command.
	asked = regexp.MustCompile(`(?m)(?:^|[ /(])jobctl((?: +[^ #|;&\n)>]+)+)`)
	// flagged finds a flag among them, less its value.
	flagged = regexp.MustCompile(` (--[a-z-]+)`)
)

// What pages have a person type, jobctl knows: the command, and each of its flags.
func TestCommandsOfPagesExist(t *testing.T) {
	t.Parallel()
	binary := harness.Program(t, "jobctl")
	helps := map[string]string{}
	help := func(words ...string) (string, bool) {
		key := strings.Join(words, " ")
		if _, known := helps[key]; !known {
			output, err := exec.Command(binary, append([]string{"help"}, words...)...).CombinedOutput()
			if helps[key] = string(output); err != nil {
				helps[key] = ""
			}
		}
		return helps[key], helps[key] != ""
	}
	common, _ := help()
	seen := 0
	for _, b := range blocks(t) {
		if !slices.Contains([]string{"sh", "bash", "console"}, b.language) {
			continue
		}
		text := b.text
		if b.language == "console" {
			text = strings.Join(typed(text), "\n")
		}
		for _, match := range asked.FindAllStringSubmatch(text, -1) {
			var words []string
			for _, word := range strings.Fields(match[1]) {
				if word[0] != '-' && word[0] != '@' {
					words = append(words, word)
				}
			}
			if len(words) == 0 || words[0][0] == '/' { // it is installed there, say
				continue
			}
			seen++
			about, known := help(words[0])
			if len(words) > 1 { // of two words, as journal show
				if longer, isTwo := help(words[:2]...); isTwo {
					about, known = longer, true
				}
			}
			if !known {
				t.Errorf("%s:%d: jobctl%s: there is no such command", b.page, b.line, match[1])
				continue
			}
			for _, flag := range flagged.FindAllStringSubmatch(match[1], -1) {
				if !strings.Contains(about, flag[1]) && !strings.Contains(common, flag[1]) {
					t.Errorf("%s:%d: jobctl%s: the command has no flag %s", b.page, b.line, match[1], flag[1])
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no command was found: this test looks for the wrong thing")
	}
}

// Blocks of json are JSON: what people write for "and so on" has no place in them.
func TestJSONBlocksAreValid(t *testing.T) {
	t.Parallel()
	for _, b := range blocks(t) {
		if b.language == "json" && !json.Valid([]byte(b.text)) {
			t.Errorf("%s:%d: this is no JSON", b.page, b.line)
		}
	}
}

// A configuration of a page is taken by one of the programs without a word: nothing is unknown, odd or
// wrong. What a page leaves out, since it is about something else, is completed.
func TestConfigurationsOfPagesAreTaken(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, b := range blocks(t) {
		if b.language != "ini" {
			continue
		}
		seen++
		var said []string
		for _, program := range []string{"jobd", "jobd-master", "jobctl"} {
			said = append(said, program+": "+complaints(t, program, b.text))
		}
		if !slices.ContainsFunc(said, func(s string) bool { return strings.HasSuffix(s, ": ") }) {
			t.Errorf("%s:%d: no program takes this configuration:\n%s", b.page, b.line, strings.Join(said, "\n"))
		}
	}
	if seen == 0 {
		t.Error("no configuration was found: this test looks for the wrong thing")
	}
}

// complaints are what a program says of a configuration.
func complaints(t *testing.T, program, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), program+".conf")
	if program == "jobd" {
		text = folder.ReplaceAllString(completed(text), "launcher.cwd = /")
	}
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	args := []string{"--config", file}
	if program == "jobctl" {
		args = append(args, "schedule", "hourly :00") // asks nobody
	} else {
		args = append(args, "--check", "--host", "127.0.0.1", "--port", "0")
	}
	if program == "jobd" { // nobody outside of this machine is asked anything
		args = append(args, "--mysql-host", "127.0.0.1", "--mysql-port", "1", "--master-host", "")
	}
	command := exec.Command(harness.Program(t, program), args...)
	command.Env = append(os.Environ(), "CREDENTIALS_DIRECTORY="+credentials(t))
	output, err := command.CombinedOutput()
	if err != nil && len(output) == 0 {
		t.Fatalf("%s: %v", program, err)
	}
	var about []string
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, "configuration: "+file) && !strings.HasPrefix(line, "ok") || strings.HasPrefix(line, "wrong    configuration") ||
			strings.HasPrefix(line, "jobctl: ") {
			about = append(about, line)
		}
	}
	return strings.Join(about, "")
}

// credentials makes a folder as systemd gives a unit that has LoadCredential.
func credentials(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"password", "mysql_password"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("something long\n"), 0o400))
	}
	return dir
}

// folder finds the folder of launchers, which is on the reader's machine, section a section about one
// target.
var folder = regexp.MustCompile(`(?m)^launcher\.cwd *=.*`)

var section = regexp.MustCompile(`(?m)^\[target ([^\]]+)\]`)

// completed is a part of a worker's configuration with what else a worker needs.
func completed(text string) string {
	var above strings.Builder
	top, _, _ := strings.Cut("\n"+text, "\n[")
	for key, value := range map[string]string{
		"launcher": "/bin/true {id}", "mysql_user": "jobd", "mysql_password": "secret", "mysql_database": "application",
		"use_columns": "run_at, planned_at, schedule, attempts",
	} {
		if key == "use_columns" && strings.Contains(top, "gearman_listen") { // which needs more of them, and has all by default
			continue
		}
		if !regexp.MustCompile(`(?m)^` + key + `(_file)? *=`).MatchString(top) {
			above.WriteString(key + " = " + value + "\n")
		}
	}
	below := ""
	if !strings.Contains(text, "[targets]") {
		below = "[targets]\n"
		for _, target := range section.FindAllStringSubmatch(text, -1) {
			below += target[1] + " = 1\n"
		}
		if below == "[targets]\n" {
			below += "default = 1\n"
		}
	}
	return above.String() + text + below
}

func docs(parts ...string) string {
	return filepath.Join(append([]string{harness.Top(), "docs"}, parts...)...)
}

// What is drawn today from docs/diagrams is what stands in docs.
func TestPicturesAreDrawnFromTheirSources(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob(docs("diagrams", "*.dot"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("docs/diagrams has no source (%v)", err)
	}
	fresh := t.TempDir()
	if output, err := exec.Command(filepath.Join(harness.Top(), "tools", "diagrams.sh"), fresh).CombinedOutput(); err != nil {
		t.Fatalf("tools/diagrams.sh: %v: %s", err, output)
	}
	pages := allPages(t)
	for _, source := range sources {
		picture := strings.TrimSuffix(filepath.Base(source), ".dot") + ".svg"
		kept := read(t, docs(picture))
		if digest := fmt.Sprintf("%x", sha256.Sum256([]byte(read(t, source)))); !strings.Contains(kept, digest) {
			t.Errorf("docs/%s was drawn from another %s: run make diagrams", picture, filepath.Base(source))
		}
		if diff := cmp.Diff(unplaced(kept), unplaced(read(t, filepath.Join(fresh, picture)))); diff != "" {
			t.Errorf("docs/%s is another picture (-there +drawn): run make diagrams\n%s", picture, diff)
		}
		shown := false
		for _, text := range pages {
			shown = shown || strings.Contains(text, picture+")")
		}
		if !shown {
			t.Errorf("no page shows docs/%s", picture)
		}
	}
}

// place is an attribute that says where something is: that depends on the fonts of a machine.
var place = regexp.MustCompile(` (x|y|cx|cy|rx|ry|points|d|width|height|viewBox|transform|textLength)="[^"]*"`)

func unplaced(picture string) string { return place.ReplaceAllString(picture, "") }

// A browser shows nothing of an SVG that is no XML.
func TestPicturesAreXML(t *testing.T) {
	t.Parallel()
	pictures, err := filepath.Glob(docs("*.svg"))
	if err != nil || len(pictures) == 0 {
		t.Fatalf("docs has no picture (%v)", err)
	}
	for _, picture := range pictures {
		decoder := xml.NewDecoder(strings.NewReader(read(t, picture)))
		for err = nil; err == nil; {
			_, err = decoder.Token()
		}
		check.ErrorIs(t, err, io.EOF, "%s", picture)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content := must.Get(os.ReadFile(file))(t)
	return string(content)
}

package architecture

import (
	"fmt"
	"go/constant"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// link finds the target of a Markdown link.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestDocumentationLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	seen := 0
	for name, content := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(content, -1) {
			target, _, _ := strings.Cut(match[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			seen++
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, match[1])
			}
		}
	}
	if seen == 0 {
		t.Error("no link was found: this test looks for the wrong thing")
	}
}

// widest is how long a line of prose is at most. Tables and code are as wide as they must be.
const widest = 100

func TestDocumentationIsOfReadableWidth(t *testing.T) {
	t.Parallel()
	for name, content := range pages(t) {
		if !within(name, []string{top + "/README.md", top + "/docs"}) {
			continue
		}
		code := false
		for line := range strings.Lines(content) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			prose := !code && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "    ")
			if line = strings.TrimSuffix(line, "\n"); prose && utf8.RuneCountInString(line) > widest {
				t.Errorf("%s: a line is longer than %d characters: %s", name, widest, line)
			}
		}
	}
}

// pages reads every Markdown file of the repository, by its path from here.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && name == filepath.Join(top, "bin") {
			return filepath.SkipDir // what was fetched has pages of its own
		}
		if err != nil || filepath.Ext(name) != ".md" {
			return err
		}
		content, err := os.ReadFile(name)
		texts[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// fewestWords is what a package's doc comment needs to say more than its name.
const fewestWords = 8

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	type doc struct{ text, name string }
	docs := map[string]doc{}
	for _, f := range sources(t) {
		name := strings.TrimSuffix(f.syntax.Name.Name, "_test")
		d := docs[f.folder()]
		d.name = name
		if f.syntax.Doc != nil {
			if d.text != "" {
				t.Errorf("%s: the package has a second doc comment; one place is enough", f.path)
			}
			d.text = f.syntax.Doc.Text()
		}
		docs[f.folder()] = d
	}
	for folder, d := range docs {
		openings := []string{"Package " + d.name + " "}
		if d.name == "main" {
			command := path.Base(folder)
			openings = []string{"Command " + command + " ", strings.ToUpper(command[:1]) + command[1:] + " "}
		}
		text := strings.ReplaceAll(d.text, "\n", " ")
		opens := slices.ContainsFunc(openings, func(opening string) bool { return strings.HasPrefix(text, opening) })
		switch {
		case d.text == "":
			t.Errorf("%s: package %s has no doc comment", folder, d.name)
		case !opens:
			t.Errorf("%s: the doc comment does not begin with one of %q", folder, openings)
		case len(strings.Fields(d.text)) < fewestWords:
			t.Errorf("%s: the doc comment says too little: %q", folder, d.text)
		}
	}
}

// A link that names a part of a page leads to a heading of that name.
func TestDocumentationLinksLeadToHeadings(t *testing.T) {
	t.Parallel()
	texts := pages(t)
	seen := 0
	for name, content := range texts {
		for _, match := range link.FindAllStringSubmatch(withoutCode(content), -1) {
			target, anchor, named := strings.Cut(match[1], "#")
			if !named || strings.Contains(target, "://") || (target != "" && filepath.Ext(target) != ".md") {
				continue
			}
			page := name
			if target != "" {
				page = filepath.Join(filepath.Dir(name), target)
			}
			seen++
			if !anchors(texts[page])[anchor] {
				t.Errorf("%s links to %s, and %s has no such heading", name, match[1], page)
			}
		}
	}
	if seen == 0 {
		t.Error("no link with a heading was found: this test looks for the wrong thing")
	}
}

// anchors are the names that links have for a page's headings, as GitHub makes them: small letters,
// digits, hyphens for blanks, and a number where a heading is not the first of its name.
func anchors(content string) map[string]bool {
	names, times := map[string]bool{}, map[string]int{}
	for line := range strings.Lines(withoutCode(content)) {
		heading := strings.TrimLeft(line, "#")
		if len(heading) == len(line) || !strings.HasPrefix(heading, " ") {
			continue
		}
		name := anchor(heading)
		if n := times[name]; n > 0 {
			names[fmt.Sprintf("%s-%d", name, n)] = true
		}
		times[name]++
		names[name] = true
	}
	return names
}

func anchor(heading string) string {
	heading = strings.ToLower(strings.TrimSpace(link.ReplaceAllString(heading, "]")))
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return r
		}
		return -1
	}, heading)
}

// withoutCode is a page without its fenced blocks: what looks like a heading or a link there is none.
func withoutCode(content string) string {
	var b strings.Builder
	code := false
	for line := range strings.Lines(content) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		} else if !code {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	for heading, want := range map[string]string{
		"## To add …": "to-add-", "### 48. A web page's request is executed": "48-a-web-pages-request-is-executed",
		"## `status`, and [why](#x)": "status-and-why",
	} {
		if got := anchor(strings.TrimLeft(heading, "#")); got != want {
			t.Errorf("%s is %s, want %s", heading, got, want)
		}
	}
	if got := anchors("# A\n```\n# no\n```\n## A\n"); !got["a"] || !got["a-1"] || got["no"] {
		t.Errorf("anchors are %v", got)
	}
}

// ownTest is how lint runs the test of this package.
const ownTest = "cd tests && go test -count=1 -vet=off -ldflags=-s ./architecture"

// make ci goes its own ways through lint and test, to be quicker: it runs what they run, all of it, and
// each once. What they say as they would run it is compared, line by line.
func TestContinuousIntegrationRunsLintTestAndDemo(t *testing.T) {
	t.Parallel()
	runs := map[string]int{}
	for _, line := range dryRun(t, "ci") {
		runs[line]++
	}
	for _, target := range []string{"lint", "test", "demo"} {
		for _, line := range dryRun(t, target) {
			// Lint has the test of this package to itself; in make ci it is one of all.
			if line == ownTest {
				continue
			}
			if runs[line] != 1 {
				t.Errorf("make %s runs this, and make ci does so %d times: %s", target, runs[line], line)
			}
		}
	}
}

// Lint fails for what the test of this package finds, and each module has all of its tests run, whichever
// of them come first.
func TestTargetsRunAllTests(t *testing.T) {
	t.Parallel()
	lint := strings.Join(dryRun(t, "lint"), "\n")
	if !strings.Contains(lint, ownTest) {
		t.Errorf("make lint goes without the test of the architecture:\n%s", lint)
	}
	for _, target := range []string{"test", "ci"} {
		all := strings.Join(dryRun(t, target), "\n")
		for _, module := range []string{".", "tests"} {
			_, from, found := strings.Cut(all, "(cd "+module+" && ")
			command, _, _ := strings.Cut(from, ")")
			if !found || !strings.HasSuffix(command, " ./...") || !strings.Contains(command, "go test -count=1 ") {
				t.Errorf("make %s does not run all tests of the module in %s: %q", target, module, command)
			}
		}
	}
}

// dryRun is what make would run for a target, line by line.
func dryRun(t *testing.T, target string) []string {
	t.Helper()
	dry := exec.Command("make", "--no-print-directory", "-n", target)
	dry.Dir = top
	for _, variable := range os.Environ() {
		// A make that these tests run in hands down its options.
		if !strings.HasPrefix(variable, "MAKE") && !strings.HasPrefix(variable, "MFLAGS=") {
			dry.Env = append(dry.Env, variable)
		}
	}
	out, err := dry.Output()
	if err != nil {
		t.Fatalf("make -n %s: %s", target, describe(err))
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// docs/stuck.md says what to do about every reason that jobctl why gives: those of its own, and
// those for which a worker claims nothing.
func TestEveryReasonHasARemedy(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(top + "/docs/stuck.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, p := range must(t, shipped) {
		for _, name := range p.types.Scope().Names() {
			reason, ok := p.types.Scope().Lookup(name).(*types.Const)
			if !ok || !isReason(reason) {
				continue
			}
			seen++
			if word := constant.StringVal(reason.Val()); !strings.Contains(string(page), "`"+word+"`") {
				t.Errorf("docs/stuck.md does not say what to do about the reason `%s`", word)
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d reasons are found: this test looks for the wrong constants", seen)
	}
}

func isReason(c *types.Const) bool {
	return typeName(c.Type()) == "jobd/cmd/internal/reason.Code" || typeName(c.Type()) == "jobd/exec.Hindering"
}

// place is what may be a file or a folder in the repository, or a pattern of files.
var place = regexp.MustCompile(`^[a-z]+(?:/[a-z_*-]+)+(?:\.[a-z]+)?$|^[a-zA-Z]+\.(?:md|go)$`)

// The page says into which files the next changes go: they are there.
func TestPlacesOfTheNextChangesExist(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(top, page))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "\n## To add …\n")
	section, _, _ = strings.Cut(section, "\n## ")
	seen := 0
	for _, name := range codes(section) {
		if !place.MatchString(name) {
			continue
		}
		seen++
		if found, err := filepath.Glob(filepath.Join(top, name)); err != nil || len(found) == 0 {
			t.Errorf("%s: %s, which a change is to go to, is not there (%v)", page, name, err)
		}
	}
	if seen == 0 {
		t.Errorf("%s: no place of a change was found: this test looks for the wrong thing", page)
	}
}

// page is where the import table stands for readers.
const page = "docs/architecture.md"

// code finds what a Markdown text shows as code.
var code = regexp.MustCompile("`([^`]+)`")

// The page and the import table say the same, and no package of several files is missing there.
func TestThePageHasTheImportTable(t *testing.T) {
	t.Parallel()
	rows := pageRows(t)
	for folder, permissions := range allowed {
		want := slices.Clone(permissions)
		for i := range want {
			want[i] = strings.TrimPrefix(want[i], "jobd/")
		}
		slices.Sort(want)
		if got, ok := rows[folder]; !ok {
			t.Errorf("%s: the table has no row for %s", page, folder)
		} else if !slices.Equal(got, want) {
			t.Errorf("%s: the row of %s says that it imports %q; it may import %q", page, folder, got, want)
		}
	}
	for folder := range rows {
		if _, ok := allowed[folder]; !ok && !within(folder, free) {
			t.Errorf("%s: %s has a row there and none in the import table", page, folder)
		}
		if _, err := os.Stat(filepath.Join(top, folder)); err != nil {
			t.Errorf("%s: %s has a row, and is not there", page, folder)
		}
	}
	for folder, files := range counts(t) {
		if _, ok := rows[folder]; !ok && files > 1 && !within(folder, trials) {
			t.Errorf("%s: %s has %d files and no row in the table", page, folder, files)
		}
	}
}

// pageRows reads the first table of the page: what each package imports, in order.
func pageRows(t *testing.T) map[string][]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(top, page))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "\n## Packages\n")
	_, table, _ := strings.Cut(section, "\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 3 {
			t.Fatalf("%s: a row of the table has %d cells, not 3: %s", page, len(cells), line)
		}
		for _, folder := range codes(cells[0]) {
			rows[folder] = codes(cells[2])
		}
	}
	return rows
}

// codes are the pieces of a text that are shown as code, in order.
func codes(text string) []string {
	found := []string{}
	for _, match := range code.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return found
}

// counts is the number of files of each package, without tests.
func counts(t *testing.T) map[string]int {
	t.Helper()
	files := map[string]int{}
	for _, f := range sources(t) {
		if !f.isTest() {
			files[f.folder()]++
		}
	}
	return files
}

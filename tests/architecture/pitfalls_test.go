package architecture

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mention finds "pitfall 27", "pitfalls 6, 7 and 8" and TestPitfall11And12NarrowColumns.
var mention = regexp.MustCompile(`(?i)pitfalls? ?(\d+(?:(?:, | and |and)\d+)*)`)

// entry is the heading of an entry of docs/pitfalls.md.
var entry = regexp.MustCompile(`(?m)^### (\d+)\. `)

// number is one of the numbers of a mention.
var number = regexp.MustCompile(`\d+`)

// function is a function's name, as entries give the tests that show them.
var function = regexp.MustCompile("`([A-Za-z]+[A-Za-z0-9]*)`")

func TestEveryPitfallThatIsMentionedIsDescribed(t *testing.T) {
	t.Parallel()
	described := map[string]bool{}
	for _, match := range entry.FindAllStringSubmatch(pitfalls(t), -1) {
		if described[match[1]] {
			t.Errorf("docs/pitfalls.md has two entries for %s", match[1])
		}
		described[match[1]] = true
	}
	seen := 0
	for _, f := range sources(t) {
		if within(f.folder(), []string{"tests/architecture"}) {
			continue
		}
		for _, match := range mention.FindAllStringSubmatch(string(f.content), -1) {
			seen++
			for _, n := range number.FindAllString(match[1], -1) {
				if !described[n] {
					t.Errorf("%s mentions pitfall %s, which docs/pitfalls.md does not describe", f.path, n)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no pitfall is mentioned: this test looks for the wrong words")
	}
}

func TestEveryPitfallIsShownByTestsThatExist(t *testing.T) {
	t.Parallel()
	functions := map[string]bool{}
	for _, f := range sources(t) {
		for _, declaration := range f.syntax.Decls {
			if declared, ok := declaration.(*ast.FuncDecl); ok && (f.isTest() || within(f.folder(), trials)) {
				functions[declared.Name.Name] = true
			}
		}
	}
	shown := 0
	for paragraph := range strings.SplitSeq(pitfalls(t), "\n\n") {
		if !strings.HasPrefix(paragraph, "Shown by ") {
			continue
		}
		for _, match := range function.FindAllStringSubmatch(paragraph, -1) {
			shown++
			if !functions[match[1]] {
				t.Errorf("docs/pitfalls.md names the test %s, which is nowhere", match[1])
			}
		}
	}
	if shown == 0 {
		t.Error("no entry names a test: this test looks for the wrong words")
	}
}

func pitfalls(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(top, "docs/pitfalls.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

package architecture

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// mention finds "pitfall 27", "pitfalls 6, 7 and 8" and TestPitfall11And12NarrowColumns.
var mention = regexp.MustCompile(`(?i)pitfalls? ?(\d+(?:(?:, | and |and)\d+)*)`)

// promise is the page that says what is promised, and which pitfalls there are.
const promise = "docs/promise.md"

// entry is the beginning of a pitfall's row in the page's table.
var entry = regexp.MustCompile(`(?m)^\| (\d+) \| `)

// number is one of the numbers of a mention.
var number = regexp.MustCompile(`\d+`)

// function is a test's name, or that of a function of the suite that every store passes.
var function = regexp.MustCompile("`((?:Test|apply|claim)[A-Z][A-Za-z0-9]*)`")

func TestEveryPitfallThatIsMentionedIsDescribed(t *testing.T) {
	t.Parallel()
	described := map[string]bool{}
	for _, match := range entry.FindAllStringSubmatch(pitfalls(t), -1) {
		if described[match[1]] {
			t.Errorf("%s has two entries for pitfall %s", promise, match[1])
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
					t.Errorf("%s mentions pitfall %s, which %s does not describe", f.path, n, promise)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no pitfall is mentioned: this test looks for the wrong words")
	}
}

func TestThePromiseNamesTestsThatExist(t *testing.T) {
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
	for _, match := range function.FindAllStringSubmatch(pitfalls(t), -1) {
		shown++
		if !functions[match[1]] {
			t.Errorf("%s names the test %s, which is nowhere", promise, match[1])
		}
	}
	if shown == 0 {
		t.Errorf("%s names no test: this test looks for the wrong words", promise)
	}
}

func pitfalls(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(top, promise))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

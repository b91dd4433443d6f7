package architecture

import (
	"go/ast"
	"slices"
	"testing"
)

// mostFiles is how many product files a folder may have.
const mostFiles = 20

func TestFoldersHaveFewFiles(t *testing.T) {
	t.Parallel()
	count := map[string]int{}
	for _, f := range sources(t) {
		if !f.isTest() && !within(f.folder(), trials) {
			count[f.folder()]++
		}
	}
	for folder, files := range count {
		if files > mostFiles {
			t.Errorf("%s has %d product files, over %d: put together what is read together", folder, files, mostFiles)
		}
	}
}

// A sleep is a guess about another machine's speed: too short there, too long here. In
// the bubbles of testing/synctest the clock is a fake, and sleeping is how it advances.
func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if !f.isTest() && !within(f.folder(), trials) {
			continue
		}
		if slices.ContainsFunc(f.syntax.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` }) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isTimeSleep(call) {
				t.Errorf("%s calls time.Sleep: wait for the condition itself", f.path)
			}
			return true
		})
	}
}

func isTimeSleep(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Sleep" {
		return false
	}
	pkg, ok := selector.X.(*ast.Ident)
	return ok && pkg.Name == "time"
}

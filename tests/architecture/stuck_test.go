package architecture

import (
	"go/constant"
	"go/types"
	"os"
	"strings"
	"testing"
)

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

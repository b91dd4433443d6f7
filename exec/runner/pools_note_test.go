package runner

import (
	"strings"
	"testing"
)

// What a process writes before it is ready is one line of the log, whatever it is.
func TestNotesAreOneLine(t *testing.T) {
	t.Parallel()
	k := keep(t, t.TempDir())
	k.pool(`printf 'Traceback:\n\033[31m2026-11-22 ERR all is lost\n'; exit 1`, 1)
	k.says(func(why string) bool { return why != "" })
	// The handler writes a backslash of the text as two, and a line's end as \n.
	if log := k.log.String(); !strings.Contains(log, `it wrote: Traceback:\\n\\x1b[31m2026-11-22 ERR all is lost"`) {
		t.Errorf("the log:\n%s", log)
	}
}

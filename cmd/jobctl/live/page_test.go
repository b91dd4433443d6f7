package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A story is read anew from time to time; tables are not, while nobody sees them.
func TestAStory(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	p := sit(t, f, false, 80, 24)
	p.press("tab", "enter")
	p.sees("job 4711 of report on node-1", "claimed by node-1")
	running := f.asked["running"]
	p.later(6)
	if f.asked["story"] != 3 || f.asked["running"] != running || f.asked["fleet"] < 6 {
		t.Errorf("asked: %v", f.asked)
	}
	for i := range 50 {
		f.story = append(f.story, fmt.Sprintf("line %d", i))
	}
	p.later(3)
	p.misses("line 49")
	p.press("end")
	p.sees("line 49")
	p.press("home")
	p.sees("job 4711\n")
	f.err = errGone
	p.later(3)
	p.sees("no answer since", "claimed by node-1")
	p.press("esc")
	p.sees("running jobs")
}

// Output comes piece by piece, is told apart without colours, and ends.
func TestOutputIsFollowed(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	f.output = []Output{
		{Stdout: "one\ntw", Stderr: "oh", Next: Place{6, 2}},
		{Stdout: "o\n", Stderr: " no\n", Next: Place{8, 6}},
		{Next: Place{8, 6}, Ended: true, Note: "it has ended: exit code 3"},
	}
	p := sit(t, f, false, 80, 24)
	p.press("tab", "o")
	p.sees("\n  one\n  tw\n! oh\n")
	p.later(1)
	p.sees("\n  one\n  two\n! oh no\n")
	p.later(5)
	p.sees("it has ended: exit code 3")
	if want := []Place{{-firstOutput, -firstOutput}, {6, 2}, {8, 6}}; !slices.Equal(f.places, want) {
		t.Errorf("asked behind %v, want %v", f.places, want)
	}
}

// Who scrolls back sees the same lines while more come; what is kept is bounded.
func TestALongOutput(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	var text strings.Builder
	for i := range 2 * mostKeptLines {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	f.output = []Output{{Stdout: text.String()}, {Stdout: "the end\n"}, {Stdout: strings.Repeat("x", 3*mostKeptBytes)}}
	p := sit(t, f, false, 80, 24)
	p.press("tab", "o")
	p.sees("line 9999")
	p.press("pgup")
	p.sees("line 9979", "20 lines back from the end")
	p.misses("line 9980")
	p.later(1)
	p.sees("line 9979", "21 lines back from the end")
	p.misses("line 9980")
	p.press("end")
	p.sees("the end")
	if n := len(p.model.page.kept); n > mostKeptLines {
		t.Errorf("%d lines are kept", n)
	}
	p.later(1)
	if n := p.model.page.bytes + len(p.model.page.begun[0]); n > mostKeptBytes+longestLine {
		t.Errorf("%d bytes are kept", n)
	}
}

// An answer for a page that was left changes nothing, and its request is ended.
func TestAnAnswerForAPageThatWasLeft(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	f.output = []Output{{Stdout: "of the first\n"}}
	p := sit(t, f, false, 80, 24)
	p.press("tab")
	p.hold = true
	p.press("o")
	left := p.model.page
	p.press("esc", "down")
	p.hold = false
	p.press("o")
	p.run(p.held[0])
	if left.ctx.Err() == nil {
		t.Error("its request goes on")
	}
	if left == p.model.page || left.kept != nil {
		t.Errorf("the page that was left has %v", left.kept)
	}
}

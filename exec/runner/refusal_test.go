package runner

import (
	"errors"
	"testing"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
)

// Whether a program can't be executed, or something is missing for a moment, passes as a class; a
// start that is known is none of both.
func TestARefusalPassesWithItsClass(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name         string
		m            wire.Message
		never, short bool
	}{
		{"program", wire.Message{Text: "start /x: permission denied", Class: wire.Program}, true, false},
		{"short", wire.Message{Text: "start /x: what an errno says", Class: wire.Short}, true, true},
		{"known", wire.Message{Text: "some words", Class: wire.AlreadyKnown}, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := refusal(&test.m)
			var refused *jobexec.NotStartedError
			if never := errors.As(err, &refused); never != test.never || never && refused.Short != test.short || err.Error() != test.m.Text {
				t.Errorf("%T %v", err, err)
			}
		})
	}
}

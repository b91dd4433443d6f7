package runner

import (
	"errors"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
)

// Whether a program can't be executed, or something is missing for a moment, passes as a class; a start that is known is
// none of both.
func TestARefusalPassesWithItsClass(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name         string
		m            message
		never, short bool
	}{
		{"program", message{Text: "start /x: permission denied", Class: classProgram}, true, false},
		{"short", message{Text: "start /x: what an errno says", Class: classShort}, true, true},
		{"known", message{Text: "some words", Class: classKnown}, false, false},
		{"an older runner's", message{Text: "start /x: exec format error"}, true, false},
		{"an older runner's, short", message{Text: "start /x: resource temporarily unavailable"}, true, true},
		{"an older runner's, known", message{Text: "it was started already"}, false, false},
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

// A worker of an older version gets refusals as it knows them.
func TestAnOlderWorkerGetsNoClass(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	wait(begin(t, remote, 2, "exit 0")) // its outcome is kept, and the runner with it
	if err := remote.Close(); err != nil {
		t.Fatal(err)
	}
	for _, hello := range []message{
		{Kind: kindHello, Version: 2, Instance: "elapsed"},
		{Kind: kindHello, Version: 2, Instance: "elapsed", Jobs: []process{{Started: journal.Started{BootID: "classes"}}}},
	} {
		conn, err := remote.dial()
		if err != nil {
			t.Fatal(err)
		}
		put(t, conn, hello, message{Kind: kindStart, ID: id{1, 1}, Argv: []string{"/none"}, MaxOutput: 1})
		w := newWire(conn)
		for refused := false; !refused; {
			m, err := w.next()
			if err != nil {
				t.Fatal(err)
			}
			want := class(0)
			if len(hello.Jobs) > 0 {
				want = classProgram
			}
			if refused = m.Kind == kindRefused; refused && m.Class != want {
				t.Errorf("the class is %d, want %d", m.Class, want)
			}
		}
		if len(hello.Jobs) > 0 {
			put(t, conn, message{Kind: kindForget, ID: id{2, 1}})
		}
		conn.Close()
	}
}

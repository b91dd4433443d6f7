package runner

import (
	"errors"
	"testing"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
	"jobd/journal"
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
		{"an older runner's", wire.Message{Text: "start /x: exec format error"}, true, false},
		{"an older runner's, short", wire.Message{Text: "start /x: resource temporarily unavailable"}, true, true},
		{"an older runner's, known", wire.Message{Text: "it was started already"}, false, false},
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
	for _, hello := range []wire.Message{
		{Kind: wire.Hello, Version: 2, Instance: "elapsed"},
		{Kind: wire.Hello, Version: 2, Instance: "elapsed", Jobs: []wire.Job{{Started: journal.Started{BootID: "classes"}}}},
	} {
		conn, err := remote.connector.config.dialRunning()
		if err != nil {
			t.Fatal(err)
		}
		put(t, conn, hello, wire.Message{Kind: wire.Start, ID: wire.ID{Job: 1, Attempt: 1}, Argv: []string{"/none"}, MaxOutput: 1})
		r := wire.NewReader(conn)
		for refused := false; !refused; {
			m, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			want := wire.Class(0)
			if len(hello.Jobs) > 0 {
				want = wire.Program
			}
			if refused = m.Kind == wire.Refused; refused && m.Class != want {
				t.Errorf("the class is %d, want %d", m.Class, want)
			}
		}
		if len(hello.Jobs) > 0 {
			put(t, conn, wire.Message{Kind: wire.Forget, ID: wire.ID{Job: 2, Attempt: 1}})
		}
		conn.Close()
	}
}

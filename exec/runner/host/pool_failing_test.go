package host

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/exec/runner/wire"
)

// A new version that does not get ready takes nobody's place, and the standing says so, until one
// does.
func TestANewVersionThatDoesNotGetReady(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fork", "pool"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			file := filepath.Join(t.TempDir(), "launcher")
			p := pooled(mode, 2)
			install(t, file, "exec \"$@\"\n")
			p.Argv = append([]string{file}, p.Argv...)
			b.pools(p)
			b.stands("two are ready", func(s wire.Standing) bool { return s.Ready == 2 && s.Failing == "" && s.Since == 0 })
			install(t, file, "echo no such class >&2; exit 3\n")
			b.out.Post(wire.Message{Kind: wire.Recycle, Text: "recycle"})
			s := b.stands("new ones fail", func(s wire.Standing) bool { return s.Failing != "" })
			if s.Since == 0 || s.Ready != 2 || s.Unready != "" || !strings.Contains(s.Failing, "it ended with exit code 3; it wrote: no such class") {
				t.Errorf("standing %+v", s)
			}
			if done := b.run(1, work(mode, "echo works", `print "works\n"`)); string(done.Stdout.Kept) != "works\n" {
				t.Errorf("done %+v", done)
			}
			install(t, file, "exec \"$@\"\n")
			b.out.Post(wire.Message{Kind: wire.Recycle, Text: "recycle"})
			b.stands("new ones are ready", func(s wire.Standing) bool { return s.Ready == 2 && s.Failing == "" && s.Since == 0 })
			if note := b.noted("new processes for target mail get ready again"); note.Level != slog.LevelWarn {
				t.Errorf("noted %+v, where the beginning was a warning", note)
			}
		})
	}
}

// A launcher that gets ready again and again, and never starts a job, is of no use since the first
// time, until a process has started one; and the log says what is wrong with it.
func TestALauncherThatNeverAnswersIsOfNoUseSinceTheFirstTime(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, func(ps *pools) { ps.times.answer = 50 * time.Millisecond })
	good := pooled("pool", 1)
	file := filepath.Join(t.TempDir(), "launcher")
	p := good
	p.Argv = append([]string{file}, p.Argv...)
	install(t, file, "echo ready >&4; exec sleep 3000\n")
	began := time.Now().UnixMilli()
	b.pools(p)
	refused := func(job int64) {
		b.start(job)
		if m := b.of(job, wire.Refused); !strings.Contains(m.Text, "it did not answer within 50ms") {
			t.Errorf("job %d: %+v", job, m)
		}
	}
	refused(1)
	first := b.stands("it is of no use", func(s wire.Standing) bool { return s.Unready != "" })
	if first.Since < began {
		t.Errorf("since %d, before it began: %d", first.Since, began)
	}
	b.noted("a process for target mail gets ready, and does no job: it did not answer within 50ms")
	for job := int64(2); job <= 3; job++ {
		b.stands("another one is ready", func(s wire.Standing) bool { return s.Ready == 1 && s.Unready == "" })
		refused(job)
		if again := b.stands("it is of no use", func(s wire.Standing) bool { return s.Unready != "" }); again.Since != first.Since {
			t.Errorf("of no use since %d, the first time since %d", again.Since, first.Since)
		}
	}
	install(t, file, "exec \"$@\"\n")
	b.out.Post(wire.Message{Kind: wire.Recycle, Text: "recycle"})
	b.stands("another one is ready", func(s wire.Standing) bool { return s.Ready == 1 && s.Unready == "" })
	if done := b.run(5, "DO=true"); done.Result != "ok" {
		t.Errorf("done %+v", done)
	}
	b.noted("new processes for target mail get ready again")
	b.mu.Lock()
	for _, said := range []string{"gets ready, and does no job", "get ready again"} {
		n := 0
		for _, note := range b.notes {
			if strings.Contains(note.Text, said) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%q was noted %d times: %+v", said, n, b.notes)
		}
	}
	b.mu.Unlock()
	install(t, file, "exit 3\n")
	b.out.Post(wire.Message{Kind: wire.Recycle, Text: "recycle"})
	if s := b.stands("new ones fail", func(s wire.Standing) bool { return s.Failing != "" }); s.Since <= first.Since {
		t.Errorf("they fail since %d, which is over: %d", s.Since, first.Since)
	}
}

// install puts a script in the place of another one at once: one that is open for writing can't be
// executed.
func install(t *testing.T, file, script string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

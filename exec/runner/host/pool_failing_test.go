package host

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/exec/runner/wire"
	"jobd/store/storetest/must"
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
			b.recycle(&p, "recycle")
			s := b.stands("new ones fail", func(s wire.Standing) bool { return s.Failing != "" })
			if s.Since == 0 || s.Ready != 2 || s.Unready != "" || !strings.Contains(s.Failing, "it ended with exit code 3; it wrote: no such class") {
				t.Errorf("standing %+v", s)
			}
			if done := b.run(1, work(mode, "echo works", `print "works\n"`)); string(done.Stdout.Kept) != "works\n" {
				t.Errorf("done %+v", done)
			}
			install(t, file, "exec \"$@\"\n")
			b.recycle(&p, "recycle")
			b.stands("new ones are ready", func(s wire.Standing) bool { return s.Ready == 2 && s.Failing == "" && s.Since == 0 })
			if note := b.noted("new processes for target mail get ready again"); note.Level != slog.LevelWarn {
				t.Errorf("noted %+v, where the beginning was a warning", note)
			}
		})
	}
}

// install puts a script in the place of another one at once: one that is open for writing can't be
// executed.
func install(t *testing.T, file, script string) {
	t.Helper()
	must.Do(t, os.WriteFile(file+".new", []byte("#!/bin/sh\n"+script), 0o700))
	must.Do(t, os.Rename(file+".new", file))
}

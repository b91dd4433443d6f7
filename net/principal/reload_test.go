package principal_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"jobd/net/principal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// world is a keeper that runs in a bubble, and its file.
type world struct {
	t    rapid.TB
	path string
	k    *principal.Keeper

	mu  sync.Mutex
	log bytes.Buffer
}

// Write implements io.Writer for the log.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

// inBubble runs a test with a keeper of a file.
func inBubble(t *testing.T, content string, test func(w *world)) {
	t.Helper()
	path := inFile(t, content, 0o600, os.Getuid(), os.Getgid())
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, path: path}
		var err error
		if w.k, err = principal.Open(path, slog.New(slog.NewTextHandler(w, nil))); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.k.Run(ctx)
		time.Sleep(time.Millisecond) // so that no look falls on the end of a sleep
		test(w)
	})
}

// write makes the file anew: many file systems wait for the disk where one was truncated.
func (w *world) write(content string) {
	w.t.Helper()
	_ = os.Remove(w.path)
	must.Do(w.t, os.WriteFile(w.path, []byte(content), 0o600))
}

// looks lets the keeper look at the file so often.
func (w *world) looks(n int) {
	time.Sleep(time.Duration(n) * 400 * time.Millisecond)
	synctest.Wait()
}

// told gives what was logged since it was called last, save the time.
func (w *world) told() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.log.Reset()
	return w.log.String()
}

// A line that is removed ends at the second look, and so does whatever hangs on it.
func TestRemovedLineEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, "a run * uid:1\nb run mail uid:2\nc run * localhost\n", func(w *world) {
		removed, changed, kept := w.k.UID(1), w.k.UID(2), w.k.Localhost()
		ended := 0
		removed.Of("").OnEnd(func() { ended++ })
		stopped := removed.Of("").OnEnd(func() { w.t.Error("what was stopped was called") })
		if !stopped() {
			w.t.Error("it can't be stopped")
		}
		w.write("# b is narrower now\nc run *    localhost # as before\nb read mail uid:2\nd run * uid:4\n")
		w.looks(1)
		if removed.Ended() || w.k.UID(1) != removed {
			w.t.Error("the file was used before a second look")
		}
		w.looks(1)
		if !removed.Ended() || ended != 1 || w.k.UID(1) != nil {
			w.t.Errorf("the removed line is done: %t; what hangs on it was called %d times", removed.Ended(), ended)
		}
		if !changed.Ended() || w.k.UID(2) == nil || w.k.UID(2).Scope.Has(principal.Run) || w.k.UID(2).Ended() {
			w.t.Error("the changed line lives on, or has none in its place")
		}
		if kept.Ended() || w.k.Localhost() != kept || w.k.Lines() != 3 || w.k.UID(4) == nil {
			w.t.Error("what was not changed has ended, or what is new is not there")
		}
		if told := w.told(); strings.Count(told, "\n") != 1 || !strings.Contains(told, "the changed file of principals is used") {
			w.t.Errorf("told was: %s", told)
		}
	})
}

// A file that can't be used leaves everything as it was, and is told once for each change; what lies outside
// the file may be mended without changing it.
func TestFileThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	const content = "a run * uid:1\n"
	inBubble(t, content, func(w *world) {
		l := w.k.UID(1)
		unused := func(why string) {
			w.t.Helper()
			w.looks(5)
			if told := w.told(); strings.Count(told, "\n") != 1 || !strings.Contains(told, "level=ERROR") || !strings.Contains(told, why) {
				w.t.Errorf("%s: told was %s", why, told)
			}
			if l.Ended() || w.k.UID(1) != l || w.k.Lines() != 1 {
				w.t.Errorf("%s: the line is not as before", why)
			}
		}
		w.write("a run * uid:1\nb rum * uid:2\n")
		unused("line 2: not a scope")
		w.write("a run * uid:1\nb rom * uid:2\n")
		unused("line 2: not a scope")
		w.write(content)
		w.looks(5)
		must.Do(w.t, os.Remove(w.path))
		unused("no such file")
		must.Do(w.t, syscall.Mkfifo(w.path, 0o600))
		unused("not a plain file")
		w.write("b run * uid:2\n")
		must.Do(w.t, os.Chmod(w.path, 0o644))
		unused("others may read or write it (mode 0644")
		must.Do(w.t, os.Chmod(w.path, 0o600))
		w.looks(2)
		if !l.Ended() || w.k.UID(2) == nil || !strings.Contains(w.told(), "is used") {
			w.t.Error("the file is not used when it can be")
		}
	})
}

// A file that is half written at a look ends nothing.
func TestHalfAFile(t *testing.T) {
	t.Parallel()
	const content = "a run * uid:1\nb run * uid:2\n"
	inBubble(t, content, func(w *world) {
		l := w.k.UID(2)
		for _, half := range []string{"", content[:14], content[:20]} {
			w.write(half)
			w.looks(1)
			w.write(content)
			w.looks(3)
			if l.Ended() || w.k.UID(2) != l {
				w.t.Errorf("%q has ended a line", half)
			}
		}
		check.Equal(w.t, w.told(), "", "told was")
		w.write("")
		w.looks(3)
		if told := w.told(); l.Ended() || strings.Count(told, "it is empty, so it may be cut off") != 1 {
			w.t.Errorf("an empty file ends lines; told was: %s", told)
		}
		w.write("# nobody\n")
		w.looks(2)
		if !l.Ended() || w.k.Lines() != 0 {
			w.t.Error("a file without lines that stays so has lines")
		}
	})
}

// A line ends when it expires, whether or not the file changes.
func TestExpiry(t *testing.T) {
	t.Parallel()
	inBubble(t, "a run * uid:1 expires=2000-01-01T00:00:10Z\nb run * uid:2 expires=2000-01-02\n", func(w *world) { // bubbles begin in 2000
		l := w.k.UID(1)
		w.looks(24)
		if l.Ended() || w.k.UID(1) != l {
			w.t.Error("it has expired too early")
		}
		w.looks(1) // of 400 ms each
		if !l.Ended() || w.k.UID(1) != nil || w.k.UID(2).Ended() {
			w.t.Error("it has not expired, or another one has")
		}
		w.looks(3)
		for range 100 { // who goes on to show it is told of once
			w.k.UID(1)
		}
		if told := w.told(); strings.Count(told, "\n") != 2 || !strings.Contains(told, "or remove its line\" principal=a") ||
			!strings.Contains(told, "msg=\"a client used a credential that has expired: renew its expires=\" principal=a credential=uid\n") {
			w.t.Errorf("told was: %s", told)
		}
		w.looks(5)
		w.write("a run * uid:1 expires=2000-01-03\nb run * uid:2 expires=2000-01-02\n")
		w.looks(2)
		if w.k.UID(1) == nil || w.k.UID(1).Ended() {
			w.t.Error("it was not prolonged")
		}
	})
}

// A worker with all targets is warned of, when it is new.
func TestWorkerOfAllTargetsIsWarnedOf(t *testing.T) {
	t.Parallel()
	const content = "n worker * uid:1\nm worker mail uid:2\nadmin admin * uid:3\n"
	inBubble(t, content, func(w *world) {
		if told := w.told(); strings.Count(told, "\n") != 1 || !strings.Contains(told, "claim every target; name them in place of *\" principal=n") {
			w.t.Errorf("told was: %s", told)
		}
		w.write(content + "o worker * uid:4\n")
		w.looks(2)
		if told := w.told(); strings.Count(told, "WARN") != 1 || !strings.Contains(told, "principal=o") {
			w.t.Errorf("told was: %s", told)
		}
	})
}

// Through all changes of the file, usable or not, the lines are those of the last usable one, and of those
// before exactly the ones have ended that are not in it as they were.
func TestLinesThroughChanges(t *testing.T) {
	t.Parallel()
	inBubble(t, "# nobody\n", func(w *world) {
		t := w.t
		defer func() { w.t = t }()
		// In a bubble nobody may ask for the deadline, which only a *testing.T has.
		rapid.Check(struct{ rapid.TB }{t}, func(r *rapid.T) {
			w.t = r
			w.write("# nobody\n")
			w.looks(2)
			model := map[int]string{} // what the line of an account says
			held := map[int]*principal.Line{}
			var ended sync.Map
			r.Repeat(map[string]func(*rapid.T){
				"a usable file": func(r *rapid.T) {
					model = rapid.MapOfN(rapid.IntRange(0, 5), rapid.SampledFrom([]string{
						"a run * ", "a read * ", "b run * ", "a run mail ", "a run mail,reports/* ",
					}), 0, 6).Draw(r, "lines")
					w.write(written(r, model))
					w.looks(2)
				},
				"a file that can't be used": func(r *rapid.T) {
					lines := rapid.MapOf(rapid.IntRange(0, 5), rapid.Just("c run * ")).Draw(r, "lines")
					w.write(written(r, lines) + rapid.SampledFrom([]string{"x", "a rum * uid:7", "a run * uid:8\na run * uid:8"}).Draw(r, "wrong"))
					w.looks(rapid.IntRange(1, 4).Draw(r, "looks"))
				},
				"a file that is changed before the second look": func(r *rapid.T) {
					w.write("z run * uid:1\n")
					w.looks(1)
					w.write(written(r, model))
					w.looks(2)
				},
				"": func(r *rapid.T) {
					must.Equal(r, w.k.Lines(), len(model), "lines")
					for uid := range 6 {
						now, before := w.k.UID(uid), held[uid]
						want, is := model[uid]
						_, called := ended.Load(before)
						switch {
						case is != (now != nil) || is && said(now) != want+"uid" || is && now.Ended():
							r.Fatalf("account %d has %q, want %q", uid, said(now), want)
						case before != nil && is && said(before) == want+"uid" && before != now:
							r.Fatalf("account %d has another line, which says the same", uid)
						case before != nil && (before.Ended() != (before != now) || called != (before != now)):
							r.Fatalf("the line of account %d that was %q is done: %t; what hangs on it was called: %t", uid, said(before), before.Ended(), called)
						}
						if held[uid] = now; now != nil && now != before {
							now.Of("").OnEnd(func() { ended.Store(now, true) })
						}
					}
				},
			})
		})
	})
}

// written is a file with the lines of accounts, in any order and with what says nothing between them.
func written(r *rapid.T, lines map[int]string) string {
	var b strings.Builder
	b.WriteString("# principals\n") // an empty file is refused
	for _, uid := range rapid.Permutation([]int{0, 1, 2, 3, 4, 5}).Draw(r, "order") {
		if line, is := lines[uid]; is {
			blanks := rapid.SampledFrom([]string{" ", "\t", "   "}).Draw(r, "blanks")
			fmt.Fprintf(&b, "%suid:%d%s\n", strings.ReplaceAll(line, " ", blanks), uid, rapid.SampledFrom([]string{"", " # x", "\r"}).Draw(r, "end"))
		}
		b.WriteString(rapid.SampledFrom([]string{"", "\n", "# a run * uid:1\n"}).Draw(r, "between"))
	}
	return b.String()
}

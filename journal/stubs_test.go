package journal

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain is also the other processes of these tests: see children in process_test.go.
func TestMain(m *testing.M) {
	if child, ok := children()[os.Getenv(childVariable)]; ok {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

func openTest(t testing.TB, dir string) *Journal {
	t.Helper()
	return openWith(t, Config{Dir: dir})
}

func openWith(t testing.TB, c Config) *Journal {
	t.Helper()
	j, err := Open(context.Background(), c)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func openReader(t testing.TB, dir string) *Reader {
	t.Helper()
	r, err := OpenReader(dir)
	if err != nil {
		t.Fatalf("OpenReader: %v", err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func mustAppend(t testing.TB, j *Journal, drafts ...Draft) []Event {
	t.Helper()
	events, err := j.Append(drafts...)
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	return events
}

func mustClose(t testing.TB, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// eventually waits for a condition that nothing signals.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	deadline := time.After(30 * time.Second)
	for !condition() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Errorf("it never came to be that %s", what)
			return
		}
	}
}

// wholeLife is a job's way from its claim to its end.
func wholeLife(job int64) []Draft {
	code := int(job % 3)
	return []Draft{
		{job, Accepted{Target: "t", Token: "@abcdefghi"}},
		{job, Running{Attempt: 1}},
		{job, Started{Pid: int(job), StartTime: 12345, BootID: "boot"}},
		{job, Done{Result: "ok", Code: &code, Stdout: Output{Kept: []byte("out"), Size: 3}}},
	}
}

// events reads everything that the filter selects.
func events(t testing.TB, r *Reader, f Filter) []Event {
	t.Helper()
	var all []Event
	for e, err := range r.Events(context.Background(), f) {
		if err != nil {
			t.Fatalf("Events: %v", err)
		}
		all = append(all, e)
	}
	return all
}

// snapshot copies the state, as a View's may not be kept.
func snapshot(j *Journal) State {
	var copied State
	j.View(func(s *State) {
		copied = *s
		copied.Jobs = make(map[int64]*Job)
		for id, job := range s.Jobs {
			kept := *job
			copied.Jobs[id] = &kept
		}
		copied.Targets = make(map[string]Target)
		for name, target := range s.Targets {
			copied.Targets[name] = target
		}
	})
	return copied
}

// copyFolder copies the files of a journal, whoever has them open.
func copyFolder(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// listing is every file of a folder with what tells that it was written to.
func listing(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = info.ModTime().String() + string(content)
	}
	return files
}

// segmentFile is the first segment's database.
const segmentFile = "segment-00000001.db"

// noise is bytes that do not compress, the same each time.
func noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

func stringReader(text string) io.Reader { return strings.NewReader(text) }

// headFormat is the head file, as a reader of the documentation would write it.
const headFormat = "jobd-head %020d %s\n"

package verify_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
)

// Pitfall 21: what the write-ahead log lost is gone without a trace for SQLite.
func TestLogThatLostItsEnd(t *testing.T) {
	t.Parallel()
	live := t.TempDir()
	j := journaltest.OpenTest(t, live)
	for job := range int64(10) {
		journaltest.MustAppend(t, j, journaltest.WholeLife(job+1)...)
	}
	original := journaltest.CopyFolder(t, live) // as a crash leaves it
	const log = journaltest.SegmentFile + "-wal"
	for name, damage := range map[string]func(t *testing.T, dir string){
		"truncated":     onFile(log, func(b []byte) []byte { return b[:len(b)-len(b)/4] }),
		"cut by a byte": onFile(log, func(b []byte) []byte { return b[:len(b)-1] }),
		"emptied":       onFile(log, func([]byte) []byte { return nil }),
		"removed":       remove(log),
		"flipped frame": onFile(log, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }),
		"flipped salt":  onFile(log, func(b []byte) []byte { b[16] ^= 1; return b }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := journaltest.CopyFolder(t, original)
			if err := verdictOn(t.Context(), dir); err != nil {
				t.Fatalf("before: %v", err)
			}
			damage(t, dir)
			if err := os.Remove(filepath.Join(dir, journaltest.SegmentFile+"-shm")); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			refused(t, "Verify", verdictOn(t.Context(), dir), 0, "")
			content, err := os.ReadFile(filepath.Join(dir, log))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			_, openErr := eventlog.Open(t.Context(), eventlog.Config{Dir: dir})
			refused(t, "Open", openErr, 0, "")
			if kept, _ := os.ReadFile(filepath.Join(dir, log)); string(kept) != string(content) {
				t.Error("Open threw away what is left of the log")
			}
		})
	}
}

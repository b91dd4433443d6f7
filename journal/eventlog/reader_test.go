package eventlog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store/storetest/must"
)

// The log's own reader keeps connections and the ends of files. It sees each append all the same, through
// roll-overs, sealing and retention, and neither files that are gone nor a write-ahead log are left behind.
func TestReaderKeepsUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now()
	j := openWith(t, Config{Dir: dir, Now: func() time.Time { return now }, Retention: 3 * defaultSegmentAge, NoTable: true})
	count := func(job int64) (n int) {
		t.Helper()
		for _, err := range j.Reader().Events(t.Context(), journal.Filter{Job: job, Last: 100}) {
			must.Do(t, err)
			n++
		}
		return n
	}
	for job := range int64(12) {
		mustAppend(t, j, wholeLife(job+1)...)
		if n := count(job + 1); n != len(wholeLife(1)) {
			t.Errorf("job %d has %d events", job+1, n)
		}
		mustAppend(t, j, wholeLife(99)...)
		if job < 3 && count(99) != int(job+1)*len(wholeLife(1)) {
			t.Errorf("%d events of a job that runs again and again", count(99))
		}
		now = now.Add(defaultSegmentAge)
		if job%2 == 0 {
			mustMaintain(t, j)
		}
	}
	if n := count(1); n != 0 {
		t.Errorf("of a job that retention has removed there are %d events", n)
	}
	open := 0
	for _, fd := range must.Get(os.ReadDir("/proc/self/fd"))(t) {
		if path, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil && strings.HasPrefix(path, dir) && strings.HasSuffix(path, "(deleted)") {
			open++
		}
	}
	if open > 3 { // a database, its log and its index, until another one is read
		t.Errorf("%d files are open that are gone", open)
	}
	must.Do(t, j.Close())
	for _, name := range names(t, dir) {
		if strings.HasSuffix(name, "-wal") || strings.HasSuffix(name, "-shm") {
			t.Errorf("a closed journal has a file %s", name)
		}
	}
}

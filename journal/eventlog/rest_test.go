package eventlog

import (
	"os"
	"path/filepath"
	"testing"

	"jobd/journal"
)

func TestRestEmptiesALargeLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	log := filepath.Join(dir, segmentFile+"-wal")
	large := journal.Output{Kept: noise(maxLog + 1), Size: maxLog + 1}
	mustAppend(t, j, journal.Draft{Job: 1, Payload: journal.Accepted{Target: "t"}}, journal.Draft{Job: 1, Payload: journal.Running{Attempt: 1}}, journal.Draft{Job: 1, Payload: journal.Done{Result: "ok", Stdout: large}})
	if info, err := os.Stat(log); err != nil || info.Size() <= maxLog {
		t.Fatalf("the log has %d bytes (%v)", info.Size(), err)
	}
	if err := j.Rest(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(log); err != nil || info.Size() != 0 {
		t.Fatalf("the log has %d bytes (%v)", info.Size(), err)
	}
}

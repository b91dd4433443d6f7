package archive_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"jobd/journal/archive"
	"jobd/journal/journaltest"
	"jobd/journal/journaltest/readtest"
)

// What was read from a database at rest is void when a worker wrote meanwhile.
func TestReaderReadsAgainWhatAWorkerChanged(t *testing.T) {
	t.Parallel()
	dir := journaltest.ClosedJournal(t, 1)
	d := archive.ReadDatabase(filepath.Join(dir, readtest.SegmentFile))
	defer d.Close()
	tries := 0
	err := d.Read(func(*sql.DB) error {
		if tries++; tries == 1 {
			j := journaltest.OpenTest(t, dir)
			journaltest.MustAppend(t, j, readtest.WholeLife(2)...)
			journaltest.MustClose(t, j) // its write-ahead log came and went
			return errors.New("garbled")
		}
		return nil
	})
	if err != nil || tries != 2 {
		t.Fatalf("%d tries, %v", tries, err)
	}
}

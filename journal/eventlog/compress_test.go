package eventlog

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/archive"
)

// Whatever a job wrote comes back, and what compresses is stored small, in the open segment and in
// a sealed one.
func TestOutputIsStoredCompressed(t *testing.T) {
	t.Parallel()
	outputs := map[string]struct {
		kept []byte
		most int // bytes stored
	}{
		"text":                 {[]byte(strings.Repeat("converted one more file\n", 10_000)), 5000},
		"noise":                {noise(100_000), 100_000},
		"little":               {[]byte("ok\n"), 3},
		"compressed":           {zstdFrame(noise(5000)), 5100},
		"compressed, little":   {zstdFrame([]byte("x")), 100},
		"begins like that":     {slices.Concat(zstdMagic, []byte("but is none")), 100},
		"just the beginning":   {zstdMagic, 100},
		"almost the beginning": {zstdMagic[:3], 3},
	}
	j := openTest(t, t.TempDir())
	r := openReader(t, j.config.Dir)
	job := int64(0)
	for name, c := range outputs {
		job++
		life := wholeLife(job)
		life[3].Payload = journal.Done{Result: "ok", Stdout: journal.Output{Kept: c.kept, Size: int64(len(c.kept))}, Stderr: journal.Output{Kept: c.kept, Size: 7}}
		want := mustAppend(t, j, life...)
		var stored int
		query(t, j, `SELECT max(length(stdout), length(stderr)) FROM events WHERE seq = ?`, want[3].Seq, &stored)
		if stored > c.most {
			t.Errorf("%s: %d bytes are stored, want at most %d", name, stored, c.most)
		}
		if diff := cmp.Diff(want, events(t, r, journal.Filter{Job: job, Output: true})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	want := events(t, r, journal.Filter{Output: true})
	roll(t, j)
	mustAppend(t, j, journal.Draft{Job: 0, Payload: journal.Closed{}})
	mustMaintain(t, j)
	if diff := cmp.Diff(want, events(t, r, journal.Filter{Output: true, Until: want[len(want)-1].Time.Add(1)})); diff != "" {
		t.Errorf("sealed: %s", diff)
	}
	if _, err := verifyAll(t.Context(), r); err != nil {
		t.Error(err)
	}
}

func query(t *testing.T, j *Log, text string, seq uint64, value any) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+archive.DatabasePath(j.config.Dir, 1)+"?mode=ro")
	if err == nil {
		err = errors.Join(db.QueryRow(text, int64(seq)).Scan(value), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// zstdMagic is what a frame of zstd begins with.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// zstdFrame is content as a frame of zstd with one block, which is stored as it is.
func zstdFrame(content []byte) []byte {
	const oneSegmentOfKnownSize, lastBlock = 0xa0, 1
	frame := binary.LittleEndian.AppendUint32(append(slices.Clone(zstdMagic), oneSegmentOfKnownSize), uint32(len(content)))
	block := binary.LittleEndian.AppendUint32(nil, uint32(len(content)<<3|lastBlock))
	return append(append(frame, block[:3]...), content...)
}

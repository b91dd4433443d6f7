package journal

import (
	"bytes"
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// Whatever a job wrote comes back, and what compresses is stored small, in the open segment and in a sealed one.
func TestOutputIsStoredCompressed(t *testing.T) {
	t.Parallel()
	e := newEncoder(zstd.SpeedFastest)
	outputs := map[string]struct {
		kept []byte
		most int // bytes stored
	}{
		"text":                 {[]byte(strings.Repeat("converted one more file\n", 10_000)), 5000},
		"noise":                {noise(100_000), 100_000},
		"little":               {[]byte("ok\n"), 3},
		"compressed":           {e.EncodeAll(noise(5000), nil), 5100},
		"compressed, little":   {e.EncodeAll([]byte("x"), nil), 100},
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
		life[3].Payload = Done{Result: "ok", Stdout: Output{Kept: c.kept, Size: int64(len(c.kept))}, Stderr: Output{Kept: c.kept, Size: 7}}
		want := mustAppend(t, j, life...)
		var stored int
		query(t, j, `SELECT max(length(stdout), length(stderr)) FROM events WHERE seq = ?`, want[3].Seq, &stored)
		if stored > c.most {
			t.Errorf("%s: %d bytes are stored, want at most %d", name, stored, c.most)
		}
		if diff := cmp.Diff(want, events(t, r, Filter{Job: job, Output: true})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	want := events(t, r, Filter{Output: true})
	roll(t, j)
	mustAppend(t, j, Draft{0, Closed{}})
	mustMaintain(t, j)
	if diff := cmp.Diff(want, events(t, r, Filter{Output: true, Until: want[len(want)-1].Time.Add(1)})); diff != "" {
		t.Errorf("sealed: %s", diff)
	}
	if _, err := r.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func query(t *testing.T, j *Journal, text string, seq uint64, value any) {
	t.Helper()
	d := &database{path: databasePath(j.config.Dir, 1)}
	err := d.read(func(db *sql.DB) error { return db.QueryRow(text, int64(seq)).Scan(value) })
	if err != nil || d.close() != nil {
		t.Fatal(err)
	}
}

// Damaged compressed output is told as damage of its event.
func TestDamagedOutput(t *testing.T) {
	t.Parallel()
	d := newDecoder()
	defer d.Close()
	packed := pack(newEncoder(zstd.SpeedFastest), bytes.Repeat([]byte("x"), 1000))
	packed[len(packed)-1] ^= 1
	if _, err := unpack(d, packed); err == nil || !strings.Contains(err.Error(), "its output is not readable") {
		t.Errorf("%v", err)
	}
}

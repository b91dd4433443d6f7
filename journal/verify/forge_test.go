package verify_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
	"jobd/journal/journaltest/readtest"
	"jobd/journal/verify"
	"jobd/store/storetest/must"
)

// forgery changes records.
type forgery func(random *rand.Rand, records []archive.Record) []archive.Record

func changeOne(random *rand.Rand, records []archive.Record) []archive.Record {
	i := random.IntN(len(records))
	for !bytes.HasPrefix(records[i].Payload, []byte(`{"target"`)) {
		i = (i + 1) % len(records)
	}
	records[i].Payload = fmt.Appendf(nil, `{"target":"t","token":"@f%08x"}`, random.Uint32())
	return records
}

func deleteOne(random *rand.Rand, records []archive.Record) []archive.Record {
	i := random.IntN(len(records) - 1)
	return slices.Delete(records, i, i+1)
}

func swapTwo(random *rand.Rand, records []archive.Record) []archive.Record {
	i := random.IntN(len(records) - 1)
	k := i + 1 + random.IntN(len(records)-i-1)
	a, b := &records[i], &records[k]
	*a, *b = *b, *a
	a.Seq, b.Seq = b.Seq, a.Seq
	return records
}

func cutTail(random *rand.Rand, records []archive.Record) []archive.Record {
	return records[:1+random.IntN(len(records)-1)]
}

// readPart gives the header and all records of a segment.
func readPart(t *testing.T, p archive.Part) (_ archive.Header, records []archive.Record) {
	t.Helper()
	s := must.Get(p.Open())(t)
	defer s.Close()
	for page, err := range s.Records(t.Context(), archive.Selection{Output: true}) {
		must.Do(t, err)
		records = append(records, page...)
	}
	return must.Get(s.Header(t.Context()))(t), records
}

// rechain gives records the hashes that they would have if they had been appended so.
func rechain(h archive.Header, records []archive.Record) {
	previous := h.Opening()
	for i := range records {
		records[i].Hash = records[i].Chain(previous)
		previous = records[i].Hash
	}
}

// rewriteSealed seals a forged segment, with everything in its file but the events as it should be.
func rewriteSealed(forge forgery, rehash bool) func(*testing.T, *rand.Rand, string) {
	return func(t *testing.T, random *rand.Rand, dir string) {
		path := anySealed(random, dir)
		h, records := readPart(t, archive.Part{Path: path, Sealed: true})
		records = forge(random, records)
		if rehash {
			rechain(h, records)
		}
		seal(t, path, h, records)
	}
}

// seal writes a sealed file, in the place of another one where there is one.
func seal(t *testing.T, path string, h archive.Header, records []archive.Record) {
	t.Helper()
	must.Do(t, os.Remove(path))
	w := must.Get(archive.NewSealWriter(path, h))(t)
	for i := range records {
		must.Do(t, w.Add(&records[i]))
	}
	must.Do(t, errors.Join(w.Finish(), w.Close()))
}

// rewriteOpen writes the newest segment anew with forged events; a thorough forger mends the chain
// and the head file.
func rewriteOpen(forge forgery, thorough bool) func(*testing.T, *rand.Rand, string) {
	return func(t *testing.T, random *rand.Rand, dir string) {
		h, records := readPart(t, archive.Part{Path: archive.DatabasePath(dir, 4)})
		records = forge(random, records)
		if thorough {
			rechain(h, records)
			head(records)(t, dir)
		}
		writeOpen(t, dir, h, records)
	}
}

// head has the head file know the last of the records.
func head(records []archive.Record) func(t *testing.T, dir string) {
	last := records[len(records)-1]
	return onFile(archive.HeadFile, func([]byte) []byte { return fmt.Appendf(nil, readtest.HeadFormat, last.Seq, last.Hash) })
}

func writeOpen(t *testing.T, dir string, h archive.Header, records []archive.Record) {
	t.Helper()
	path := archive.DatabasePath(dir, h.Number)
	must.Do(t, errors.Join(archive.RemoveDatabase(path), archive.Make(t.Context(), dir, h, 0)))
	db := must.Get(sql.Open("sqlite", path))(t)
	defer db.Close()
	for _, r := range records {
		_ = must.Get(db.Exec(`INSERT INTO records VALUES (?, ?, ?, ?, CAST(? AS TEXT), ?, NULL, ?)`,
			int64(r.Seq), r.Micros, r.Job, string(r.Kind), r.Payload, r.Stdout, r.Hash[:]))(t)
	}
}

// partOf is a segment of a journal whose fourth one is open.
func partOf(dir string, number int) archive.Part {
	if number == 4 {
		return archive.Part{Number: number, Path: archive.DatabasePath(dir, number)}
	}
	return archive.Part{Number: number, Path: archive.SealedPath(dir, number), Sealed: true}
}

// write writes a segment anew.
func write(t *testing.T, dir string, p archive.Part, h archive.Header, records []archive.Record) {
	t.Helper()
	if p.Sealed {
		seal(t, p.Path, h, records)
	} else {
		writeOpen(t, dir, h, records)
	}
}

// forgeCheckpoint makes a job vanish from, or appear in, the checkpoint of a segment.
func forgeCheckpoint(t *testing.T, random *rand.Rand, dir string) {
	p := partOf(dir, 2+random.IntN(3))
	h, records := readPart(t, p)
	s := must.Get(h.State())(t)
	job := int64(1_000_001 + random.IntN(20))
	if _, there := s.Jobs[job]; there {
		delete(s.Jobs, job)
	} else {
		s.Jobs[job] = &journal.Job{ID: job, Target: "t", Status: journal.StatusAccepted}
	}
	forged := must.Get(archive.NewHeader(p.Number, s))(t)
	if random.IntN(2) == 0 {
		rechain(forged, records)
	}
	write(t, dir, p, forged, records)
}

// rejoined is a journal of six segments of 25 events, of which retention has archived four, in one
// folder with its archive.
func rejoined(t *testing.T) (dir string, all []journal.Event) {
	t.Helper()
	archive := t.TempDir()
	j := journaltest.Rolled(t, 6, 5)
	j.Reopen(t, func(c *eventlog.Config) { c.Retention, c.ArchiveDir = time.Nanosecond, archive })
	journaltest.MustMaintain(t, j)
	j.SetPosition(100)
	journaltest.MustMaintain(t, j)
	journaltest.MustClose(t, j)
	dir = readtest.CopyFolder(t, j.Dir)
	must.Do(t, os.CopyFS(dir, os.DirFS(archive)))
	all = readtest.Events(t, readtest.OpenReader(t, dir), journal.Filter{Output: true})
	if len(all) != 151 || all[150].Kind() != journal.KindRetention {
		t.Fatalf("%d events", len(all))
	}
	return dir, all
}

func audit(t *testing.T, dir string, anchors ...journal.Anchor) (*verify.Audited, error) {
	t.Helper()
	return verify.Audit(t.Context(), readtest.OpenReader(t, dir).Folder(), anchors, nil)
}

// wantVerdict checks what a verification says, up to which event nothing is wrong, and is proven.
func wantVerdict(t *testing.T, a *verify.Audited, err error, says string, sound, proven uint64) {
	t.Helper()
	var d *journal.DamagedError
	if says == "" && err != nil || says != "" && (!errors.As(err, &d) || !strings.Contains(err.Error(), says)) {
		t.Errorf("%v; want: …%s", err, says)
	}
	if a.Events != sound || a.Proven != proven {
		t.Errorf("sound up to %d, and proven up to %d; want %d and %d: %v", a.Events, a.Proven, sound, proven, err)
	}
}

func anchorOf(e journal.Event) journal.Anchor { return journal.Anchor{Seq: e.Seq, Hash: e.Hash} }

// A segment that is taken out of the middle is a hole, whatever was removed by retention before.
func TestAHoleIsFound(t *testing.T) {
	t.Parallel()
	whole, all := rejoined(t)
	a, err := audit(t, whole, anchorOf(all[150]))
	wantVerdict(t, a, err, "", 151, 151)
	dir := readtest.CopyFolder(t, whole)
	remove("segment-00000003.zst")(t, dir)
	a, err = audit(t, dir)
	wantVerdict(t, a, err, "at event 51: segment 3 is missing", 50, 0)
	a, err = audit(t, dir, anchorOf(all[39]), anchorOf(all[149]))
	wantVerdict(t, a, err, "segment 3 is missing", 50, 40)
	readsUpTo(t, dir, 50)

	dir = readtest.CopyFolder(t, whole)
	for n := range 4 {
		remove(fmt.Sprintf("segment-0000000%d.zst", n+1))(t, dir)
	}
	a, err = audit(t, dir, anchorOf(all[59]), anchorOf(all[150]))
	wantVerdict(t, a, err, "", 151, 151)
	if a.Unanswered != 1 {
		t.Errorf("unanswered: %d", a.Unanswered)
	}
	remove("segment-00000005.zst")(t, dir)
	a, err = audit(t, dir)
	wantVerdict(t, a, err, "at event 101: the history begins with segment 6, and no event says that retention removed those from 5 on", 100, 0)
	if got := readtest.Events(t, readtest.OpenReader(t, dir), journal.Filter{Last: 2}); len(got) != 2 {
		t.Errorf("the newest events: %v", got)
	}
}

// readsUpTo checks that every way of reading gives what is sound, up to an event, and then fails.
func readsUpTo(t *testing.T, dir string, last uint64) {
	t.Helper()
	r := readtest.OpenReader(t, dir)
	var got uint64
	var err error
	for e, readErr := range r.Events(t.Context(), journal.Filter{}) {
		if err = readErr; err == nil {
			got = e.Seq
		}
	}
	var d *journal.DamagedError
	if got != last || !errors.As(err, &d) {
		t.Errorf("log reads up to %d, not %d: %v", got, last, err)
	}
	if _, err := readtest.StateAt(t.Context(), r, time.Time{}); !errors.As(err, &d) {
		t.Errorf("state: %v", err)
	}
	err = nil
	for _, err = range r.Jobs(t.Context(), time.Time{}) {
	}
	if !errors.As(err, &d) {
		t.Errorf("jobs: %v", err)
	}
}

// What retention says of itself must be true of what is still here.
func TestARetentionEventThatLies(t *testing.T) {
	t.Parallel()
	j := journaltest.Rolled(t, 3, 5)
	journaltest.MustAppend(t, j, journal.Draft{Payload: journal.Retention{First: 1, Last: 1, Seq: 25, Hash: journal.Hash{1}.String(), Reason: "none"}})
	journaltest.MustMaintain(t, j)
	journaltest.MustClose(t, j)
	a, err := audit(t, j.Dir)
	wantVerdict(t, a, err, "at event 76: it says that segment 1 ended with event 25", 75, 0)
}

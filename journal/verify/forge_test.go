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
	"jobd/journal/verify"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// forgery changes records and gives the first event that differs from what was there.
type forgery func(random *rand.Rand, records []archive.Record) ([]archive.Record, uint64)

func changeOne(random *rand.Rand, records []archive.Record) ([]archive.Record, uint64) {
	i := random.IntN(len(records))
	for !bytes.HasPrefix(records[i].Payload, []byte(`{"target"`)) {
		i = (i + 1) % len(records)
	}
	records[i].Payload = fmt.Appendf(nil, `{"target":"t","token":"@f%08x"}`, random.Uint32())
	return records, records[i].Seq
}

func deleteOne(random *rand.Rand, records []archive.Record) ([]archive.Record, uint64) {
	i := random.IntN(len(records) - 1)
	seq := records[i].Seq
	return slices.Delete(records, i, i+1), seq
}

func swapTwo(random *rand.Rand, records []archive.Record) ([]archive.Record, uint64) {
	i := random.IntN(len(records) - 1)
	k := i + 1 + random.IntN(len(records)-i-1)
	a, b := &records[i], &records[k]
	*a, *b = *b, *a
	a.Seq, b.Seq = b.Seq, a.Seq
	return records, a.Seq
}

func cutTail(random *rand.Rand, records []archive.Record) ([]archive.Record, uint64) {
	n := 1 + random.IntN(len(records)-1)
	return records[:n], records[n].Seq
}

// readPart gives the header and all records of a segment.
func readPart(t *testing.T, p archive.Part) (h archive.Header, records []archive.Record) {
	t.Helper()
	s, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if h, err = s.Header(t.Context()); err != nil {
		t.Fatal(err)
	}
	for page, err := range s.Records(t.Context(), archive.Selection{Output: true}) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, page...)
	}
	return h, records
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
func rewriteSealed(forge forgery, rehash bool) tampering {
	return func(t *testing.T, random *rand.Rand, dir string) uint64 {
		path := anySealed(random, dir)
		h, records := readPart(t, archive.Part{Path: path, Sealed: true})
		records, seq := forge(random, records)
		if rehash {
			rechain(h, records)
			if seq != anchored {
				seq = records[len(records)-1].Seq + 1 // the next segment's header knows better
			}
		}
		writeSealed(t, path, h, records)
		return seq
	}
}

func writeSealed(t *testing.T, path string, h archive.Header, records []archive.Record) {
	t.Helper()
	must.Do(t, os.Remove(path))
	seal(t, path, h, records)
}

// seal writes a sealed file.
func seal(t *testing.T, path string, h archive.Header, records []archive.Record) {
	t.Helper()
	w, err := archive.NewSealWriter(path, h)
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		err = errors.Join(err, w.Add(&records[i]))
	}
	if err = errors.Join(err, w.Finish(), w.Close()); err != nil {
		t.Fatal(err)
	}
}

// rewriteOpen writes the newest segment anew with forged events; a thorough forger mends the chain
// and the head file.
func rewriteOpen(forge forgery, thorough bool) tampering {
	return func(t *testing.T, random *rand.Rand, dir string) uint64 {
		h, records := readPart(t, archive.Part{Path: archive.DatabasePath(dir, 4)})
		records, seq := forge(random, records)
		if thorough {
			rechain(h, records)
			last := records[len(records)-1]
			onFile("head", func([]byte) []byte { return fmt.Appendf(nil, journaltest.HeadFormat, last.Seq, last.Hash) })(t, dir)
			if seq = last.Seq; seq < 100 {
				seq++ // the anchor knows of more
			}
		}
		writeOpen(t, dir, h, records)
		return seq
	}
}

func writeOpen(t *testing.T, dir string, h archive.Header, records []archive.Record) {
	t.Helper()
	path := archive.DatabasePath(dir, h.Number)
	must.Do(t, errors.Join(archive.RemoveDatabase(path), archive.Make(t.Context(), dir, h, 0)))
	db := must.Get(sql.Open("sqlite", path))(t)
	defer db.Close()
	var statements []string
	for _, r := range records {
		statements = append(statements, fmt.Sprintf(`INSERT INTO records VALUES (%d, %d, %d, '%s', '%s', %s, NULL, x'%s')`,
			r.Seq, r.Micros, r.Job, r.Kind, r.Payload, literal(r.Stdout), r.Hash))
	}
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func literal(b []byte) string {
	if b == nil {
		return "NULL"
	}
	return fmt.Sprintf("x'%x'", b)
}

// forgeCheckpoint makes a job vanish from, or appear in, the checkpoint of a segment.
func forgeCheckpoint(t *testing.T, random *rand.Rand, dir string) uint64 {
	number := 2 + random.IntN(3)
	p := archive.Part{Number: number, Path: archive.SealedPath(dir, number), Sealed: true}
	if number == 4 {
		p = archive.Part{Number: number, Path: archive.DatabasePath(dir, number)}
	}
	h, records := readPart(t, p)
	s := must.Get(h.State())(t)
	job := int64(1_000_001 + random.IntN(20))
	if _, there := s.Jobs[job]; there {
		delete(s.Jobs, job)
	} else {
		s.Jobs[job] = &journal.Job{ID: job, Target: "t", Status: journal.StatusAccepted}
	}
	forged := must.Get(archive.NewHeader(number, s))(t)
	if random.IntN(2) == 0 {
		rechain(forged, records)
	}
	if p.Sealed {
		writeSealed(t, p.Path, forged, records)
	} else {
		writeOpen(t, dir, forged, records)
	}
	return h.First
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
	dir = journaltest.CopyFolder(t, j.Dir)
	must.Do(t, os.CopyFS(dir, os.DirFS(archive)))
	all = journaltest.Events(t, journaltest.OpenReader(t, dir), journal.Filter{Output: true})
	if len(all) != 151 || all[150].Kind() != journal.KindRetention {
		t.Fatalf("%d events", len(all))
	}
	return dir, all
}

func audit(t *testing.T, dir string, anchors ...journal.Anchor) (*verify.Audited, error) {
	t.Helper()
	audited, err := verify.Audit(t.Context(), journaltest.OpenReader(t, dir).Folder(), anchors, nil)
	return audited, err
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
	dir := journaltest.CopyFolder(t, whole)
	remove("segment-00000003.zst")(t, dir)
	a, err = audit(t, dir)
	wantVerdict(t, a, err, "at event 51: segment 3 is missing", 50, 0)
	a, err = audit(t, dir, anchorOf(all[39]), anchorOf(all[149]))
	wantVerdict(t, a, err, "segment 3 is missing", 50, 40)
	readsUpTo(t, dir, 50)

	dir = journaltest.CopyFolder(t, whole)
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
	if got := journaltest.Events(t, journaltest.OpenReader(t, dir), journal.Filter{Last: 2}); len(got) != 2 {
		t.Errorf("the newest events: %v", got)
	}
}

// readsUpTo checks that every way of reading gives what is sound, up to an event, and then fails.
func readsUpTo(t *testing.T, dir string, last uint64) {
	t.Helper()
	r := journaltest.OpenReader(t, dir)
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
	if _, err := journaltest.StateAt(t.Context(), r, time.Time{}); !errors.As(err, &d) {
		t.Errorf("state: %v", err)
	}
	err = nil
	for _, err = range r.Jobs(t.Context(), time.Time{}) {
	}
	if !errors.As(err, &d) {
		t.Errorf("jobs: %v", err)
	}
}

// The note in the database is no witness: with it edited and the oldest segments removed, they are
// missing.
func TestAnEditedNoteHidesNoHole(t *testing.T) {
	t.Parallel()
	j := journaltest.Rolled(t, 4, 5)
	journaltest.MustMaintain(t, j)
	journaltest.MustClose(t, j)
	dir := j.Dir
	db := archive.OpenForWriting(archive.DatabasePath(dir, 4))
	must.Get(db.Exec(`UPDATE mirror SET kept = 3`))(t)
	must.Do(t, db.Close())
	remove("segment-00000001.zst")(t, dir)
	remove("segment-00000002.zst")(t, dir)
	a, err := audit(t, dir)
	wantVerdict(t, a, err, "at event 1: the history begins with segment 3, and no event says", 0, 0)
}

// old makes a journal as older versions did, which did not journal what they removed, with two of
// its four segments gone.
func old(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	h, err := archive.NewHeader(1, &journal.State{})
	must.Do(t, errors.Join(err, archive.Make(t.Context(), dir, h, 0)))
	j := journaltest.OpenWith(t, eventlog.Config{Dir: dir, Now: journaltest.Ticking()})
	for s := range 4 {
		if s > 0 {
			journaltest.Roll(t, j)
		}
		for n := range 5 {
			journaltest.MustAppend(t, j, journaltest.WholeLife(int64(s*5+n+1))...)
		}
	}
	j.SetPosition(80)
	journaltest.MustClose(t, j)
	parts, err := archive.List(dir) // Maintain would journal that nothing was removed so far
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts[:3] {
		h, records := readPart(t, p)
		seal(t, archive.SealedPath(dir, p.Number), h, records)
		must.Do(t, archive.RemoveDatabase(p.Path))
	}
	must.Do(t, errors.Join(os.Remove(archive.SealedPath(dir, 1)), os.Remove(archive.SealedPath(dir, 2))))
	return dir
}

// A journal that older versions have shortened is neither damaged nor silently taken, and from the
// next start on it is like any other.
func TestAJournalThatOlderVersionsShortened(t *testing.T) {
	t.Parallel()
	dir := old(t)
	a, err := audit(t, dir)
	wantVerdict(t, a, err, "", 80, 0)
	if a.Unproven != 40 || a.First != 41 {
		t.Errorf("%+v", a)
	}
	check.Equal(t, len(journaltest.Events(t, journaltest.OpenReader(t, dir), journal.Filter{})), 40, "events")
	j := journaltest.OpenWith(t, eventlog.Config{Dir: dir, Now: journaltest.Ticking()})
	journaltest.MustMaintain(t, j)
	journaltest.MustMaintain(t, j) // once is enough
	for range 5 {                  // its clock was set back by three days
		journaltest.Roll(t, j)
	}
	journaltest.MustAppend(t, j, journaltest.WholeLife(100)...)
	journaltest.MustMaintain(t, j)
	journaltest.MustClose(t, j)
	a, err = audit(t, dir)
	wantVerdict(t, a, err, "", 85, 0)
	if a.Unproven != 40 || a.First != 41 {
		t.Errorf("%+v", a)
	}
	remove("segment-00000003.zst")(t, dir)
	a, err = audit(t, dir)
	wantVerdict(t, a, err, "at event 41: the history begins with segment 4, and no event says", 40, 0)
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

package journal

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// tamperings is how often each kind of tampering is tried, at another place each time.
var tamperings = flag.Int("tampering", 20, "how often each kind of tampering is tried")

// evidence is a journal with an anchor that somebody keeps elsewhere.
type evidence struct {
	dir     string
	anchors []Anchor
	events  []Event
}

// anchored is the event of the anchor in the middle: the first of segment 3.
const anchored = 51

// collect makes a journal of four segments, the last one open, and takes anchors in the middle and at the end.
func collect(t *testing.T) evidence {
	t.Helper()
	j := rolled(t, 4, 5)
	mustMaintain(t, j)
	j.SetPosition(30)
	mustClose(t, j)
	r := openReader(t, j.config.Dir)
	e := evidence{dir: j.config.Dir, events: events(t, r, Filter{Output: true})}
	anchor, err := r.Anchor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	middle := e.events[anchored-1]
	e.anchors = []Anchor{anchor, {middle.Seq, middle.Hash}}
	return e
}

func (e evidence) audit(dir string) error {
	r, err := OpenReader(dir)
	if err != nil {
		return err
	}
	_, err = r.Audit(context.Background(), Audit{Anchors: e.anchors})
	return errors.Join(err, r.Close())
}

// tampering does something to a journal, and tells the first event that it can be found by; 0: it can't be told.
type tampering func(t *testing.T, random *rand.Rand, dir string) (seq uint64)

// Whatever is done to a journal, an audit finds it, and names the event where that can be told. What is intact is
// not misreported.
func TestTamperingIsFound(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]tampering{
		"a byte of a sealed segment":                            flipByte,
		"a stretch of a sealed segment":                         zeroStretch,
		"a sealed segment cut off":                              cutSealed,
		"a sealed segment removed":                              removeSealed,
		"sealed segments swapped":                               swapSealed,
		"a sealed event changed":                                rewriteSealed(changeOne, false),
		"a sealed event deleted":                                rewriteSealed(deleteOne, false),
		"sealed events swapped":                                 rewriteSealed(swapTwo, false),
		"a sealed event forged, its segment's chain recomputed": rewriteSealed(changeOne, true),
		"an open event changed":                                 rewriteOpen(changeOne, false),
		"an open event deleted":                                 rewriteOpen(deleteOne, false),
		"open events swapped":                                   rewriteOpen(swapTwo, false),
		"the tail cut off, and the head file mended":            rewriteOpen(cutTail, true),
		"an open event forged, chain and head file recomputed":  rewriteOpen(changeOne, true),
		"a checkpoint forged":                                   forgeCheckpoint,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := collect(t)
			seed := uint64(time.Now().UnixNano())
			random := rand.New(rand.NewPCG(seed, 0))
			for range *tamperings {
				dir := copyFolder(t, e.dir)
				if err := e.audit(dir); err != nil {
					t.Fatalf("misreported: %v", err)
				}
				seq := tamper(t, random, dir)
				err := e.audit(dir)
				var d *DamagedError
				if !errors.As(err, &d) || seq > 0 && d.Seq != seq {
					t.Fatalf("seed %d: want damage at event %d, got: %v", seed, seq, err)
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// anySealed chooses one of the three sealed segments.
func anySealed(random *rand.Rand, dir string) string { return sealedPath(dir, 1+random.IntN(3)) }

func changeFile(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err == nil {
		err = errors.Join(os.Remove(path), os.WriteFile(path, change(content), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func flipByte(t *testing.T, random *rand.Rand, dir string) uint64 {
	changeFile(t, anySealed(random, dir), func(b []byte) []byte {
		b[random.IntN(len(b))] ^= byte(1 + random.IntN(255))
		return b
	})
	return 0
}

func zeroStretch(t *testing.T, random *rand.Rand, dir string) uint64 {
	changeFile(t, anySealed(random, dir), func(b []byte) []byte {
		at := random.IntN(len(b) - 40) // 40 bytes that are all zero already are in no sealed file
		clear(b[at : at+40])
		return b
	})
	return 0
}

func cutSealed(t *testing.T, random *rand.Rand, dir string) uint64 {
	changeFile(t, anySealed(random, dir), func(b []byte) []byte { return b[:random.IntN(len(b))] })
	return 0
}

func removeSealed(t *testing.T, random *rand.Rand, dir string) uint64 {
	number := 1 + random.IntN(3)
	if err := os.Remove(sealedPath(dir, number)); err != nil {
		t.Fatal(err)
	}
	if number == 1 {
		return 26 // where the history now begins, though nothing was ever removed
	}
	return uint64(number-1)*25 + 1
}

func swapSealed(t *testing.T, random *rand.Rand, dir string) uint64 {
	a, b := anySealed(random, dir), anySealed(random, dir)
	for a == b {
		b = anySealed(random, dir)
	}
	spare := filepath.Join(dir, "spare")
	if err := errors.Join(os.Rename(a, spare), os.Rename(b, a), os.Rename(spare, b)); err != nil {
		t.Fatal(err)
	}
	return 0
}

// forgery changes records and gives the first event that differs from what was there.
type forgery func(random *rand.Rand, records []record) ([]record, uint64)

func changeOne(random *rand.Rand, records []record) ([]record, uint64) {
	i := random.IntN(len(records))
	for records[i].kind != KindAccepted {
		i = (i + 1) % len(records)
	}
	records[i].payload = fmt.Appendf(nil, `{"target":"t","token":"@f%08x"}`, random.Uint32())
	return records, records[i].seq
}

func deleteOne(random *rand.Rand, records []record) ([]record, uint64) {
	i := random.IntN(len(records) - 1)
	seq := records[i].seq
	return slices.Delete(records, i, i+1), seq
}

func swapTwo(random *rand.Rand, records []record) ([]record, uint64) {
	i := random.IntN(len(records) - 1)
	k := i + 1 + random.IntN(len(records)-i-1)
	a, b := &records[i], &records[k]
	*a, *b = *b, *a
	a.seq, b.seq = b.seq, a.seq
	return records, a.seq
}

func cutTail(random *rand.Rand, records []record) ([]record, uint64) {
	n := 1 + random.IntN(len(records)-1)
	return records[:n], records[n].seq
}

// readPart gives the header and all records of a segment.
func readPart(t *testing.T, p part) (h header, records []record) {
	t.Helper()
	decoder := newDecoder()
	defer decoder.Close()
	s, err := p.open(decoder)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if h, err = s.header(t.Context()); err != nil {
		t.Fatal(err)
	}
	for page, err := range s.records(t.Context(), selection{output: true}) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, page...)
	}
	return h, records
}

// rechain gives records the hashes that they would have if they had been appended so.
func rechain(h header, records []record) {
	previous := h.opening()
	for i := range records {
		records[i].hash = records[i].chain(previous)
		previous = records[i].hash
	}
}

// rewriteSealed seals a forged segment, with everything in its file but the events as it should be.
func rewriteSealed(forge forgery, rehash bool) tampering {
	return func(t *testing.T, random *rand.Rand, dir string) uint64 {
		path := anySealed(random, dir)
		h, records := readPart(t, part{path: path, sealed: true})
		records, seq := forge(random, records)
		if rehash {
			rechain(h, records)
			if seq != anchored {
				seq = records[len(records)-1].seq + 1 // the next segment's header knows better
			}
		}
		writeSealed(t, path, h, records)
		return seq
	}
}

func writeSealed(t *testing.T, path string, h header, records []record) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w, err := newSealedWriter(path, h)
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		err = errors.Join(err, w.add(&records[i]))
	}
	if err = errors.Join(err, w.finish(), w.close()); err != nil {
		t.Fatal(err)
	}
}

// rewriteOpen writes the newest segment anew with forged events; a thorough forger mends the chain and the head file.
func rewriteOpen(forge forgery, thorough bool) tampering {
	return func(t *testing.T, random *rand.Rand, dir string) uint64 {
		h, records := readPart(t, part{path: databasePath(dir, 4)})
		records, seq := forge(random, records)
		if thorough {
			rechain(h, records)
			last := records[len(records)-1]
			onFile(headFile, func([]byte) []byte { return fmt.Appendf(nil, headFormat, last.seq, last.hash) })(t, dir)
			if seq = last.seq; seq < 100 {
				seq++ // the anchor knows of more
			}
		}
		writeOpen(t, dir, h, records)
		return seq
	}
}

func writeOpen(t *testing.T, dir string, h header, records []record) {
	t.Helper()
	path := databasePath(dir, h.number)
	if err := errors.Join(removeDatabase(path), makeSegment(t.Context(), dir, h, notes{kept: 1})); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	statements := []string{`DROP TRIGGER events_only_next`}
	for _, r := range records {
		statements = append(statements, fmt.Sprintf(`INSERT INTO events VALUES (%d, %d, %d, '%s', '%s', %s, NULL, x'%s')`,
			r.seq, r.micros, r.job, r.kind, r.payload, literal(r.stdout), r.hash))
	}
	statements = append(statements, `CREATE TRIGGER events_only_next BEFORE INSERT ON events BEGIN SELECT 1; END`)
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
	p := part{number: number, path: sealedPath(dir, number), sealed: true}
	if number == 4 {
		p = part{number: number, path: databasePath(dir, number)}
	}
	h, records := readPart(t, p)
	s, err := h.state()
	if err != nil {
		t.Fatal(err)
	}
	job := int64(1_000_001 + random.IntN(20))
	if _, there := s.Jobs[job]; there {
		delete(s.Jobs, job)
	} else {
		s.Jobs[job] = &Job{ID: job, Target: "t", Status: StatusAccepted}
	}
	forged, err := newHeader(number, s)
	if err != nil {
		t.Fatal(err)
	}
	if random.IntN(2) == 0 {
		rechain(forged, records)
	}
	if p.sealed {
		writeSealed(t, p.path, forged, records)
	} else {
		writeOpen(t, dir, forged, records)
	}
	return h.first
}

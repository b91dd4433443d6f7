package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

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
	var statements []string
	for _, r := range records {
		statements = append(statements, fmt.Sprintf(`INSERT INTO records VALUES (%d, %d, %d, '%s', '%s', %s, NULL, x'%s')`,
			r.seq, r.micros, r.job, r.kind, r.payload, literal(r.stdout), r.hash))
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

package verify_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/journaltest"
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

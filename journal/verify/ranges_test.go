package verify_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/journaltest"
	"jobd/store/storetest/must"
)

// forgeFrom changes an event of a journal of four segments of 25 and chains everything behind it
// anew, headers and head file included, as somebody does who knows all of the format.
func forgeFrom(t *testing.T, dir string, seq uint64) {
	t.Helper()
	var state *journal.State
	for number := 1; number <= 4; number++ {
		p := archive.Part{Number: number, Path: archive.SealedPath(dir, number), Sealed: true}
		if number == 4 {
			p = archive.Part{Number: number, Path: archive.DatabasePath(dir, number)}
		}
		h, records := readPart(t, p)
		var err error
		if state != nil {
			h, err = archive.NewHeader(number, state)
		} else {
			state, err = h.State()
		}
		if err != nil {
			t.Fatal(err)
		}
		state.Seq, state.Hash = h.First-1, h.Previous
		for i := range records {
			if r := &records[i]; r.Seq == seq {
				r.Payload = []byte(`{"target":"t","token":"@forged"}`)
			}
		}
		rechain(h, records)
		for i := range records {
			e, err := records[i].Decode()
			if err = errors.Join(err, state.Apply(e)); err != nil {
				t.Fatal(err)
			}
		}
		if p.Sealed {
			writeSealed(t, p.Path, h, records)
			continue
		}
		writeOpen(t, dir, h, records)
		last := records[len(records)-1]
		onFile("head", func([]byte) []byte { return fmt.Appendf(nil, journaltest.HeadFormat, last.Seq, last.Hash) })(t, dir)
	}
}

// Where an anchor disagrees, nothing between the last one that agrees and it is called sound, nor
// what goes on from it.
func TestAForgedHistoryIsNotCalledSound(t *testing.T) {
	t.Parallel()
	e := collect(t)
	at := func(seq uint64) journal.Anchor { return anchorOf(e.events[seq-1]) }
	dir := journaltest.CopyFolder(t, e.dir)
	forgeFrom(t, dir, 40)
	a, err := audit(t, dir) // by nature: nothing in the folder can tell
	wantVerdicts(t, a, err, "", "1-100 consistent")
	a, err = audit(t, dir, at(20), at(60))
	wantVerdicts(t, a, err, "at event 60: it is not the event that the anchor knows", "1-20 proven", "21-100 damaged")
	if a.Proven != 20 || a.Compared != 1 {
		t.Errorf("%+v", a)
	}
	a, err = audit(t, dir, at(20), at(39), at(40))
	wantVerdicts(t, a, err, "at event 40", "1-39 proven", "40-100 damaged")
	a, err = audit(t, e.dir, at(20), journal.Anchor{Seq: 50, Hash: journal.Hash{1}}, at(100))
	wantVerdicts(t, a, err, "at event 50", "1-100 proven") // it is the anchor that is false
}

// Verification goes on behind damage, and a range that is called proven is chained to an anchor
// that agrees.
func TestVerdictsAreRanges(t *testing.T) {
	t.Parallel()
	e := collect(t)
	at := func(seq uint64) journal.Anchor { return anchorOf(e.events[seq-1]) }
	inOpen := func(statements ...string) func(*testing.T, string) { return onOpen(4, statements...) }
	for name, c := range map[string]struct {
		damage  func(t *testing.T, dir string)
		anchors []journal.Anchor
		says    string
		want    []string
	}{
		"nothing":                  {func(*testing.T, string) {}, nil, "", []string{"1-100 consistent"}},
		"nothing, anchored":        {func(*testing.T, string) {}, []journal.Anchor{at(51), at(100)}, "", []string{"1-100 proven"}},
		"nothing, anchored early":  {func(*testing.T, string) {}, []journal.Anchor{at(51)}, "", []string{"1-51 proven", "52-100 consistent"}},
		"a payload":                {inOpen(`UPDATE records SET payload = '{"target":"t","token":"x"}' WHERE seq = 81`), []journal.Anchor{at(100)}, "at event 81: its hash", []string{"1-80 consistent", "81-81 damaged", "82-100 proven"}},
		"a payload, anchored more": {inOpen(`UPDATE records SET payload = '{"target":"t","token":"x"}' WHERE seq = 81`), []journal.Anchor{at(78), at(100)}, "at event 81", []string{"1-78 proven", "79-80 consistent", "81-81 damaged", "82-100 proven"}},
		"a hash":                   {inOpen(`UPDATE records SET hash = zeroblob(32) WHERE seq = 81`), nil, "at event 81", []string{"1-80 consistent", "81-82 damaged", "83-100 consistent"}},
		"a short hash":             {inOpen(`UPDATE records SET hash = x'00' WHERE seq = 81`), nil, "at event 81: its hash does not match", []string{"1-80 consistent", "81-82 damaged", "83-100 consistent"}},
		"two places":               {inOpen(`UPDATE records SET time = time + 1 WHERE seq IN (78, 90)`), nil, "at event 78", []string{"1-77 consistent", "78-78 damaged", "79-89 consistent", "90-90 damaged", "91-100 consistent"}},
		"events deleted":           {inOpen(`DELETE FROM records WHERE seq BETWEEN 80 AND 82`), []journal.Anchor{at(81), at(100)}, "at event 80: it is missing; event 83 follows", []string{"1-79 consistent", "80-82 missing", "83-83 damaged", "84-100 proven"}},
		"the last ones deleted":    {inOpen(`DELETE FROM records WHERE seq > 90`), []journal.Anchor{at(70)}, "events up to 100 were acknowledged", []string{"1-70 proven", "71-90 consistent", "91-100 missing"}},
		"a segment":                {remove("segment-00000002.zst"), []journal.Anchor{at(100)}, "segment 2 is missing", []string{"1-25 consistent", "26-50 missing", "51-100 proven"}},
		"a short sealed file":      {cutTo("segment-00000002.zst", 7), []journal.Anchor{at(100)}, "it has 7 bytes", []string{"1-25 consistent", "26-50 damaged", "51-100 proven"}},
		"the oldest, short":        {cutTo("segment-00000001.zst", 0), []journal.Anchor{at(100)}, "it has 0 bytes", []string{"1-25 damaged", "26-100 proven"}},
		"the newest, no database":  {onFile("segment-00000004.db", func(b []byte) []byte { return []byte("no database, whatever") }), []journal.Anchor{at(75)}, "", []string{"1-75 proven", "76-100 damaged"}},
		"a bit of the head":        {onFile("head", func(b []byte) []byte { b[3] ^= 4; return b }), []journal.Anchor{at(100)}, "the head file is not readable", []string{"1-100 proven"}},
		"a digit of the head":      {onFile("head", otherDigit), nil, "not the event that was acknowledged", []string{"1-100 consistent"}},
		"a swap":                   {func(t *testing.T, dir string) { swapFiles(t, archive.SealedPath(dir, 1), archive.SealedPath(dir, 2)) }, nil, "holds segment", []string{"1-50 damaged", "51-100 consistent"}},
		"a view replaced":          {inOpen(`DROP VIEW events`, `CREATE VIEW events AS SELECT * FROM records WHERE job <> 7`), nil, "are not those that it was made with", []string{"1-100 consistent"}},
		"a trigger dropped":        {inOpen(`DROP TRIGGER records_no_update`), nil, "are not those that it was made with", []string{"1-100 consistent"}},
		"a trigger added":          {inOpen(`CREATE TRIGGER t AFTER INSERT ON records BEGIN UPDATE mirror SET seq = 0; END`), nil, "are not those that it was made with", []string{"1-100 consistent"}},
		"a table added":            {inOpen(`CREATE TABLE t (x)`), nil, "are not those that it was made with", []string{"1-100 consistent"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := journaltest.CopyFolder(t, e.dir)
			c.damage(t, dir)
			a, err := audit(t, dir, c.anchors...)
			if c.says == "" && name != "nothing" && !strings.HasPrefix(name, "nothing,") && err == nil {
				t.Error("nothing is found")
			}
			if c.says == "" {
				err = nil
			}
			wantVerdicts(t, a, err, c.says, c.want...)
		})
	}
}

// onOpen runs statements on a segment's database with the guards of its records off.
func onOpen(number int, statements ...string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		db := archive.OpenForWriting(archive.DatabasePath(dir, number))
		defer db.Close()
		guards := []string{"records_no_update", "records_no_delete"}
		for i, name := range guards {
			var text string
			must.Do(t, db.QueryRow(`SELECT sql FROM sqlite_schema WHERE name = ?`, name).Scan(&text))
			must.Get(db.Exec(`DROP TRIGGER ` + name))(t)
			guards[i] = text
		}
		for _, statement := range append(guards[:0:0], append(statements, guards...)...) {
			if strings.HasPrefix(statement, "DROP TRIGGER") { // a guard that must stay away
				guards = nil
				continue
			}
			if guards == nil && strings.Contains(statement, "records_no_update") {
				continue
			}
			if _, err := db.Exec(statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
}

func cutTo(name string, size int) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		changeFile(t, dir+"/"+name, func(b []byte) []byte { return b[:size] })
	}
}

func swapFiles(t *testing.T, a, b string) {
	t.Helper()
	spare := a + ".spare"
	must.Do(t, errors.Join(os.Rename(a, spare), os.Rename(b, a), os.Rename(spare, b)))
}

// Damage in an older segment keeps nobody from reading a newer one.
func TestDamageDoesNotReachFurther(t *testing.T) {
	t.Parallel()
	e := collect(t)
	for name, damage := range map[string]func(t *testing.T, dir string){
		"a block": func(t *testing.T, dir string) {
			changeFile(t, archive.SealedPath(dir, 3), func(b []byte) []byte { b[200] ^= 1; return b })
		},
		"its end":  cutTo("segment-00000003.zst", 90),
		"all gone": remove("segment-00000003.zst"),
	} {
		dir := journaltest.CopyFolder(t, e.dir)
		damage(t, dir)
		r := journaltest.OpenReader(t, dir)
		if got := journaltest.Events(t, r, journal.Filter{Last: 2}); len(got) != 2 || got[1].Seq != 100 {
			t.Errorf("%s: the newest: %v", name, got)
		}
		if got := journaltest.Events(t, r, journal.Filter{After: 75}); len(got) != 25 {
			t.Errorf("%s: behind: %v", name, got)
		}
		if got := journaltest.Events(t, r, journal.Filter{Since: e.events[80].Time}); len(got) != 20 {
			t.Errorf("%s: since: %v", name, got)
		}
		got, err := 0, error(nil)
		for _, readErr := range r.Events(context.Background(), journal.Filter{Last: 30}) {
			if err = readErr; err == nil {
				got++
			}
		}
		if !archive.IsDamage(err) || got != 25 && name != "a block" {
			t.Errorf("%s: 30 of the newest gives %d: %v", name, got, err)
		}
		readsUpTo(t, dir, 50)
	}
}

// Readers find what was changed where they read.
func TestReadersVerifyWhatTheyRead(t *testing.T) {
	t.Parallel()
	e := collect(t)
	job := e.events[80].Job
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		filter journal.Filter
		want   int
	}{
		"a payload":            {onOpen(4, `UPDATE records SET payload = '{"target":"t","token":"x"}' WHERE seq = 81`), journal.Filter{}, 80},
		"the last ones":        {onOpen(4, `UPDATE records SET time = time + 1 WHERE seq = 99`), journal.Filter{Last: 5}, 4},
		"one kind":             {onOpen(4, `DELETE FROM records WHERE seq = 81`), journal.Filter{Kinds: []journal.Kind{journal.KindDone}}, 16},
		"one target":           {onOpen(4, `DELETE FROM records WHERE seq = 81`), journal.Filter{Target: "t"}, 80},
		"output":               {onOpen(4, `UPDATE records SET stdout = x'00' WHERE seq = 79`), journal.Filter{After: 75}, 3},
		"one job":              {onOpen(4, fmt.Sprintf(`UPDATE records SET payload = '{"attempt":1,"token":"x"}' WHERE job = %d AND kind = 'running'`, job)), journal.Filter{Job: job}, 1},
		"what is cut off":      {onOpen(4, `DELETE FROM records WHERE seq > 98`), journal.Filter{}, 98},
		"what is cut off, -n":  {onOpen(4, `DELETE FROM records WHERE seq > 98`), journal.Filter{Last: 1}, 1},
		"a segment of another": {func(t *testing.T, dir string) { forgeSealed(t, dir, 2) }, journal.Filter{}, 50},
	} {
		dir := journaltest.CopyFolder(t, e.dir)
		c.damage(t, dir)
		got, err := 0, error(nil)
		for _, readErr := range journaltest.OpenReader(t, dir).Events(t.Context(), c.filter) {
			if err = readErr; err == nil {
				got++
			}
		}
		if !archive.IsDamage(err) || got != c.want {
			t.Errorf("%s: %d events, want %d; %v", name, got, c.want, err)
		}
	}
}

// forgeSealed changes an event of a sealed segment and chains it anew.
func forgeSealed(t *testing.T, dir string, number int) {
	t.Helper()
	path := archive.SealedPath(dir, number)
	h, records := readPart(t, archive.Part{Path: path, Sealed: true})
	records[5].Payload = []byte(`{"target":"t","token":"@forged"}`)
	rechain(h, records)
	writeSealed(t, path, h, records)
}

// otherDigit changes a digit of the head's hash to another digit.
func otherDigit(b []byte) []byte {
	if b[40]++; b[40] != '9'+1 && b[40] != 'f'+1 {
		return b
	}
	b[40] = '0'
	return b
}

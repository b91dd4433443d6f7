package verify_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest/readtest"
	"jobd/journal/replay"
	"jobd/journal/verify"
	"jobd/store/storetest/must"
)

// forgeFrom changes an event of a journal of four segments of 25 and chains everything behind it
// anew, headers and head file included, as somebody does who knows all of the format.
func forgeFrom(t *testing.T, dir string, seq uint64) {
	t.Helper()
	var state *journal.State
	for number := 1; number <= 4; number++ {
		p := partOf(dir, number)
		h, records := readPart(t, p)
		var err error
		if state != nil {
			h, err = archive.NewHeader(number, state)
		} else {
			state, err = h.State()
		}
		must.Do(t, err)
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
		write(t, dir, p, h, records)
		if !p.Sealed {
			head(records)(t, dir)
		}
	}
}

// Where an anchor disagrees, nothing behind the last one that agrees is called sound.
func TestAForgedHistoryIsNotCalledSound(t *testing.T) {
	t.Parallel()
	e := collect(t)
	at := e.at
	dir := readtest.CopyFolder(t, e.dir)
	forgeFrom(t, dir, 40)
	a, err := audit(t, dir) // by nature: nothing in the folder can tell
	wantVerdict(t, a, err, "", 100, 0)
	a, err = audit(t, dir, at(20), at(60))
	wantVerdict(t, a, err, "at event 60: it is not the event that the anchor knows", 20, 20)
	if a.Compared != 1 {
		t.Errorf("%+v", a)
	}
	a, err = audit(t, dir, at(20), at(39), at(40))
	wantVerdict(t, a, err, "at event 40", 39, 39)
	a, err = audit(t, e.dir, at(20), journal.Anchor{Seq: 50, Hash: journal.Hash{1}}, at(100))
	wantVerdict(t, a, err, "at event 50", 20, 20) // though it is the anchor that is false
}

// A verification tells the first damage, and up to where nothing is wrong, or is proven.
func TestTheFirstDamageIsTold(t *testing.T) {
	t.Parallel()
	e := collect(t)
	at := e.at
	inOpen := func(statements ...string) func(*testing.T, string) { return readtest.Tamper(4, statements...) }
	const otherPayload = `UPDATE records SET payload = '{"target":"t","token":"x"}' WHERE seq = 81`
	for name, c := range map[string]struct {
		damage        func(t *testing.T, dir string)
		anchors       []journal.Anchor
		says          string
		sound, proven uint64
	}{
		"nothing":                 {func(*testing.T, string) {}, nil, "", 100, 0},
		"nothing, anchored":       {func(*testing.T, string) {}, []journal.Anchor{at(51), at(100)}, "", 100, 100},
		"nothing, anchored early": {func(*testing.T, string) {}, []journal.Anchor{at(51)}, "", 100, 51},
		"a payload":               {inOpen(otherPayload), []journal.Anchor{at(100)}, "at event 81: its hash", 80, 0},
		"a payload, anchored":     {inOpen(otherPayload), []journal.Anchor{at(78), at(100)}, "at event 81", 80, 78},
		"two places":              {inOpen(`UPDATE records SET time = time + 1 WHERE seq IN (78, 90)`), nil, "at event 78", 77, 0},
		"events deleted":          {inOpen(`DELETE FROM records WHERE seq BETWEEN 80 AND 82`), []journal.Anchor{at(81), at(100)}, "at event 80: it is missing; event 83 follows", 79, 0},
		"the last ones deleted":   {inOpen(`DELETE FROM records WHERE seq > 90`), []journal.Anchor{at(70)}, "at event 91: events up to 100 were acknowledged", 90, 70},
		"a segment":               {remove("segment-00000002.zst"), []journal.Anchor{at(100)}, "at event 26: segment 2 is missing", 25, 0},
		"a short sealed file":     {cutTo("segment-00000002.zst", 7), []journal.Anchor{at(100)}, "at event 26: segment-00000002.zst: ", 25, 0},
		"the oldest, short":       {cutTo("segment-00000001.zst", 0), []journal.Anchor{at(100)}, "at event 1: segment-00000001.zst: ", 0, 0},
		"the newest, no database": {onFile("segment-00000004.db", func(b []byte) []byte { return []byte("no database, whatever") }), []journal.Anchor{at(75)}, "segment-00000004.db: ", 0, 0},
		"a bit of the head":       {onFile("head", func(b []byte) []byte { b[3] ^= 4; return b }), []journal.Anchor{at(100)}, "the head file is not readable", 0, 0},
		"a digit of the head":     {onFile("head", otherDigit), nil, "at event 100: head: it is not the event that was acknowledged", 99, 0},
		"a swap":                  {func(t *testing.T, dir string) { swapFiles(t, archive.SealedPath(dir, 1), archive.SealedPath(dir, 2)) }, nil, "at event 1: segment-00000001.zst: ", 0, 0},
		"a view replaced":         {inOpen(`DROP VIEW events`, `CREATE VIEW events AS SELECT * FROM records WHERE job <> 7`), nil, "segment-00000004.db: its tables, indexes, triggers and views are not those that it was made with", 0, 0},
		"a trigger dropped":       {inOpen(`DROP TRIGGER records_no_update`), nil, "are not those that it was made with", 0, 0},
		"a trigger added":         {inOpen(`CREATE TRIGGER t AFTER INSERT ON records BEGIN UPDATE mirror SET seq = 0; END`), nil, "are not those that it was made with", 0, 0},
		"a table added":           {inOpen(`CREATE TABLE t (x)`), nil, "are not those that it was made with", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := readtest.CopyFolder(t, e.dir)
			c.damage(t, dir)
			a, err := audit(t, dir, c.anchors...)
			wantVerdict(t, a, err, c.says, c.sound, c.proven)
		})
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
		dir := readtest.CopyFolder(t, e.dir)
		damage(t, dir)
		r := readtest.OpenReader(t, dir)
		if got := readtest.Events(t, r, journal.Filter{Last: 2}); len(got) != 2 || got[1].Seq != 100 {
			t.Errorf("%s: the newest: %v", name, got)
		}
		if got := readtest.Events(t, r, journal.Filter{After: 75}); len(got) != 25 {
			t.Errorf("%s: behind: %v", name, got)
		}
		if got := readtest.Events(t, r, journal.Filter{Since: e.events[80].Time}); len(got) != 20 {
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
		"a payload":            {readtest.Tamper(4, `UPDATE records SET payload = '{"target":"t","token":"x"}' WHERE seq = 81`), journal.Filter{}, 80},
		"the last ones":        {readtest.Tamper(4, `UPDATE records SET time = time + 1 WHERE seq = 99`), journal.Filter{Last: 5}, 4},
		"one kind":             {readtest.Tamper(4, `DELETE FROM records WHERE seq = 81`), journal.Filter{Kinds: []journal.Kind{journal.KindDone}}, 16},
		"one target":           {readtest.Tamper(4, `DELETE FROM records WHERE seq = 81`), journal.Filter{Target: "t"}, 80},
		"output":               {readtest.Tamper(4, `UPDATE records SET stdout = x'00' WHERE seq = 79`), journal.Filter{After: 75}, 3},
		"one job":              {readtest.Tamper(4, fmt.Sprintf(`UPDATE records SET payload = '{"attempt":1,"token":"x"}' WHERE job = %d AND kind = 'running'`, job)), journal.Filter{Job: job}, 1},
		"what is cut off":      {readtest.Tamper(4, `DELETE FROM records WHERE seq > 98`), journal.Filter{}, 98},
		"what is cut off, -n":  {readtest.Tamper(4, `DELETE FROM records WHERE seq > 98`), journal.Filter{Last: 1}, 1},
		"a segment of another": {func(t *testing.T, dir string) { forgeSealed(t, dir, 2) }, journal.Filter{}, 50},
	} {
		dir := readtest.CopyFolder(t, e.dir)
		c.damage(t, dir)
		got, err := 0, error(nil)
		for _, readErr := range readtest.OpenReader(t, dir).Events(t.Context(), c.filter) {
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
	seal(t, path, h, records)
}

// otherDigit changes a digit of the head's hash to another digit.
func otherDigit(b []byte) []byte {
	if b[40]++; b[40] != '9'+1 && b[40] != 'f'+1 {
		return b
	}
	b[40] = '0'
	return b
}

// anyDeadline is far longer than any reading of this small journal takes, and short beside for ever.
const anyDeadline = 30 * time.Second

// edges are numbers at which sums of numbers go wrong.
var edges = []int64{math.MinInt64, math.MinInt64 + 1, -2, -1, 0, 1, 1 << 40, math.MaxInt64 - 1, math.MaxInt64}

// One number of a segment, changed to -1, once kept a verification busy for ever. With any value in
// any column of a segment, and in any number of a file beside it, each reader comes to an end, and a
// verification knows it where it is about an event or what vouches for one.
func TestWhateverStandsInAFileIsReadToAnEnd(t *testing.T) {
	t.Parallel()
	s := makeScene(t)
	try := func(name string, told bool, change func(t *testing.T, dir string)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := readtest.CopyFolder(t, s.dir)
			change(t, dir)
			ended := make(chan error, 1)
			go func() { ended <- readAll(t.Context(), dir, s.anchors) }()
			select {
			case err := <-ended:
				if told && err == nil {
					t.Error("the verification found nothing")
				}
			case <-time.After(anyDeadline):
				t.Fatal("a reader does not end")
			}
		})
	}
	for _, column := range []string{"seq", "time", "job"} {
		for _, seq := range []int{76, 100, 125} {
			for _, edge := range edges {
				statement := fmt.Sprintf(`UPDATE OR REPLACE records SET %s = %d WHERE seq = %d`, column, edge, seq)
				try(statement, true, readtest.Tamper(4, statement))
			}
		}
	}
	for _, edge := range edges {
		statement := fmt.Sprintf(`UPDATE mirror SET seq = %d`, edge)
		try(statement, edge < 0 || edge > 125, readtest.Tamper(4, statement))
	}
	for _, statement := range []string{
		`DELETE FROM mirror`, `DELETE FROM segment`, `DELETE FROM records`,
		`UPDATE segment SET header = x''`, `UPDATE segment SET header = zeroblob(48)`, `UPDATE segment SET header = zeroblob(1000000)`,
		`UPDATE records SET kind = ''`, `UPDATE records SET kind = 'done'`, `UPDATE records SET payload = ''`,
		`UPDATE records SET payload = '[' || replace(hex(zeroblob(50000)), '00', '[')`,
		`UPDATE records SET stdout = x'28b52ffd', stderr = zeroblob(100000)`, `UPDATE records SET hash = x''`,
	} {
		try(statement, true, readtest.Tamper(4, statement))
	}
	for _, edge := range edges {
		for at, name := range []string{"number", "first event"} {
			try(fmt.Sprintf("the header's %s is %d", name, edge), true, func(t *testing.T, dir string) {
				h, _ := readPart(t, archive.Part{Path: archive.DatabasePath(dir, 4)})
				b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(h.Number)), h.First)
				binary.BigEndian.PutUint64(b[8*at:], uint64(edge))
				readtest.Tamper(4, fmt.Sprintf(`UPDATE segment SET header = x'%x%x%x'`, b, h.Previous[:], h.Checkpoint))(t, dir)
			})
		}
		try(fmt.Sprintf("the head knows event %d", edge), edge != 0, func(t *testing.T, dir string) {
			changeFile(t, filepath.Join(dir, archive.HeadFile), func(b []byte) []byte {
				return fmt.Appendf(nil, "jobd-head %020d %s", uint64(edge), bytes.SplitN(b, []byte(" "), 3)[2])
			})
		})
		for _, name := range []string{`"uptime":#`, `"wall":#`, `"real":#`, `"segments":{"#":1}`, `"segments":{"1":#}`} {
			note := "{" + strings.Replace(name, "#", strconv.FormatInt(edge, 10), 1) + "}"
			try("the clock says "+note, false, func(t *testing.T, dir string) {
				must.Do(t, os.WriteFile(filepath.Join(dir, archive.ClockFile), []byte(note), 0o600))
			})
		}
		for number, name := range []string{"version", "number", "first", "last", "begun", "ended", "low job", "high job"} {
			told := !(name == "version" && edge == 1 || name == "low job" && edge < 2 || name == "high job" && edge > 1000)
			try(fmt.Sprintf("a sealed segment's %s is %d", name, edge), told, func(t *testing.T, dir string) {
				changeFile(t, archive.SealedPath(dir, 2), func(b []byte) []byte { // its end begins with 16 bytes of frame and name
					end := len(b) - sealedEnd
					binary.LittleEndian.PutUint64(b[end+16+8*number:], uint64(edge))
					sum := sha256.Sum256(b[:len(b)-sha256.Size])
					return append(b[:len(b)-sha256.Size], sum[:]...)
				})
			})
		}
	}
}

// sealedEnd is the size of a sealed file's end: two numbers of 4 bytes, the name, 8 numbers, a hash, 5
// numbers, and the sum.
const sealedEnd = 4 + 4 + 8 + 8*8 + sha256.Size + 5*8 + sha256.Size

// readAll has every reader read a journal, and gives the verification's verdict.
func readAll(ctx context.Context, dir string, anchors []journal.Anchor) error {
	r, err := replay.Open(dir)
	if err != nil {
		return err
	}
	for _, f := range []journal.Filter{{}, {Output: true, Last: 3}, {Job: 600}, {Target: "t"}, {After: 80}, {Since: time.Unix(1, 0), Until: time.Now()}} {
		for _, err := range r.Events(ctx, f) {
			if err != nil {
				break
			}
		}
	}
	for range r.Jobs(ctx, time.Now()) {
	}
	_, _ = r.UnderWay(ctx, time.Now())
	_, _ = r.Anchor(ctx)
	_, _ = r.Name(ctx)
	_, _ = r.Kept(ctx)
	_, _ = r.First(ctx)
	_, _, _ = r.NewestOf(ctx, 600, math.MaxUint64, journal.KindAccepted)
	_ = verify.Sound(ctx, r.Folder())
	_, err = verify.Audit(ctx, r.Folder(), anchors, func(uint64) {})
	goOn(ctx, dir)
	return err
}

// goOn has a worker start with a journal, follow it from where the mirror is, and go on with it.
func goOn(ctx context.Context, dir string) {
	j, err := eventlog.Open(ctx, eventlog.Config{Dir: dir})
	if err != nil {
		return
	}
	defer j.Close()
	j.View(func(s *journal.State) { s.Unfinished() })
	_, _ = j.Append(journal.Draft{Job: 700, Payload: journal.Ignored{Reason: "x"}})
	_, _, _ = j.Newest(ctx, 600, journal.KindDone)
	_, _ = j.Retried(ctx, 600, 0)
	position := j.Position()
	_, _ = j.Back(ctx, position, time.Hour, 50)
	_, _ = j.Next(ctx, position, 10)
	_ = j.Maintain(ctx)
	_ = j.Rest()
}

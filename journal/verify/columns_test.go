package verify_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
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
	"jobd/journal/journaltest"
	"jobd/journal/replay"
	"jobd/journal/verify"
)

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
			dir := journaltest.CopyFolder(t, s.dir)
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
				try(statement, true, onOpen(4, statement))
			}
		}
	}
	for _, edge := range edges {
		statement := fmt.Sprintf(`UPDATE mirror SET seq = %d`, edge)
		try(statement, edge < 0 || edge > 125, onOpen(4, statement))
	}
	for _, statement := range []string{
		`DELETE FROM mirror`, `DELETE FROM segment`, `DELETE FROM records`,
		`UPDATE segment SET header = x''`, `UPDATE segment SET header = zeroblob(48)`, `UPDATE segment SET header = zeroblob(1000000)`,
		`UPDATE records SET kind = ''`, `UPDATE records SET kind = 'done'`, `UPDATE records SET payload = ''`,
		`UPDATE records SET payload = '[' || replace(hex(zeroblob(50000)), '00', '[')`,
		`UPDATE records SET stdout = x'28b52ffd', stderr = zeroblob(100000)`, `UPDATE records SET hash = x''`,
	} {
		try(statement, true, onOpen(4, statement))
	}
	for _, edge := range edges {
		for at, name := range []string{"number", "first event"} {
			try(fmt.Sprintf("the header's %s is %d", name, edge), true, func(t *testing.T, dir string) {
				h, _ := readPart(t, archive.Part{Path: archive.DatabasePath(dir, 4)})
				b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(h.Number)), h.First)
				binary.BigEndian.PutUint64(b[8*at:], uint64(edge))
				onOpen(4, fmt.Sprintf(`UPDATE segment SET header = x'%x%x%x'`, b, h.Previous[:], h.Checkpoint))(t, dir)
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
				if err := os.WriteFile(filepath.Join(dir, archive.ClockFile), []byte(note), 0o600); err != nil {
					t.Fatal(err)
				}
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

package verify_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/journaltest"
	"jobd/journal/replay"
	"jobd/journal/verify"
)

// tamperings is how often each kind of tampering is tried, at another place each time.
var tamperings = flag.Int("tampering", 20, "how often each kind of tampering is tried")

// evidence is a journal with an anchor that somebody keeps elsewhere.
type evidence struct {
	dir     string
	anchors []journal.Anchor
	events  []journal.Event
}

// anchored is the event of the anchor in the middle: the first of segment 3.
const anchored = 51

// collect makes a journal of four segments, the last one open, and takes anchors in the middle and
// at the end.
func collect(t *testing.T) evidence {
	t.Helper()
	j := journaltest.Rolled(t, 4, 5)
	journaltest.MustMaintain(t, j)
	j.SetPosition(30)
	journaltest.MustClose(t, j)
	r := journaltest.OpenReader(t, j.Dir)
	e := evidence{dir: j.Dir, events: journaltest.Events(t, r, journal.Filter{Output: true})}
	anchor, err := r.Anchor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	middle := e.events[anchored-1]
	e.anchors = []journal.Anchor{anchor, {Seq: middle.Seq, Hash: middle.Hash}}
	return e
}

func (e evidence) audit(dir string) error {
	r, err := replay.Open(dir)
	if err != nil {
		return err
	}
	_, err = verify.Audit(context.Background(), r.Folder(), e.anchors, nil)
	return errors.Join(err, r.Close())
}

// tampering does something to a journal, and tells the first event that it can be found by; 0: it
// can't be told.
type tampering func(t *testing.T, random *rand.Rand, dir string) (seq uint64)

// Whatever is done to a journal, an audit finds it, and names the event where that can be told.
// What is intact is not misreported.
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
				dir := journaltest.CopyFolder(t, e.dir)
				if err := e.audit(dir); err != nil {
					t.Fatalf("misreported: %v", err)
				}
				seq := tamper(t, random, dir)
				err := e.audit(dir)
				var d *journal.DamagedError
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
func anySealed(random *rand.Rand, dir string) string {
	return archive.SealedPath(dir, 1+random.IntN(3))
}

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
	if err := os.Remove(archive.SealedPath(dir, number)); err != nil {
		t.Fatal(err)
	}
	if number == 1 {
		return 1 // nothing was ever removed
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

func TestAnchors(t *testing.T) {
	t.Parallel()
	e := collect(t)
	text := "# kept by the auditor\n\n" + e.anchors[0].String() + "\n  " + e.anchors[1].String() + "\n"
	anchors, err := journal.ReadAnchors(strings.NewReader(text))
	if diff := cmp.Diff(e.anchors, anchors); err != nil || diff != "" {
		t.Fatalf("%v %s", err, diff)
	}
	for _, wrong := range []string{"5", "x " + journal.Hash{}.String(), "5 00", "0 " + journal.Hash{}.String(), "-1 " + journal.Hash{}.String(), "5 " + journal.Hash{}.String() + "0"} {
		if _, err := journal.ReadAnchors(strings.NewReader("\n" + wrong)); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	r := journaltest.OpenReader(t, e.dir)
	last := uint64(0)
	audited, err := verify.Audit(t.Context(), r.Folder(), anchors, func(seq uint64) { last = seq })
	if err != nil || audited.Compared != 2 || audited.First != 1 || last != 100 || audited.State.Seq != 100 {
		t.Fatalf("%+v, %d, %v", audited, last, err)
	}
	_, err = verify.Audit(t.Context(), r.Folder(), []journal.Anchor{{Seq: 101, Hash: journal.Hash{1}}}, nil)
	refused(t, "Audit", err, 101, "an anchor knows event 101, the journal ends at 100")
	_, err = verify.Audit(t.Context(), r.Folder(), []journal.Anchor{{Seq: 60, Hash: journal.Hash{1}}}, nil)
	refused(t, "Audit", err, 60, "the history was rewritten")
}

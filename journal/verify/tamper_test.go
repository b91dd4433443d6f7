package verify_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/journaltest"
	"jobd/journal/journaltest/readtest"
	"jobd/journal/replay"
	"jobd/journal/verify"
	"jobd/store/storetest/must"
)

// evidence is a journal, and what stood in it.
type evidence struct {
	dir    string
	events []journal.Event
}

// at is an anchor of one of the events that somebody keeps elsewhere.
func (e evidence) at(seq uint64) journal.Anchor { return anchorOf(e.events[seq-1]) }

// collect makes a journal of four segments of 25 events, the last one open.
func collect(t *testing.T) evidence {
	t.Helper()
	j := journaltest.Rolled(t, 4, 5)
	journaltest.MustMaintain(t, j)
	j.SetPosition(30)
	journaltest.MustClose(t, j)
	return evidence{j.Dir, readtest.Events(t, readtest.OpenReader(t, j.Dir), journal.Filter{Output: true})}
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
	must.Do(t, err)
}

// swapSealed swaps two of the sealed segments.
func swapSealed(t *testing.T, random *rand.Rand, dir string) {
	numbers := random.Perm(3)
	swapFiles(t, archive.SealedPath(dir, 1+numbers[0]), archive.SealedPath(dir, 1+numbers[1]))
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	e := collect(t)
	r := readtest.OpenReader(t, e.dir)
	want := []journal.Anchor{must.Get(r.Anchor(t.Context()))(t), e.at(51)}
	text := "# kept by the auditor\n\n" + want[0].String() + "\n  " + want[1].String() + "\n"
	anchors := must.Get(journal.ReadAnchors(strings.NewReader(text)))(t)
	must.Equal(t, cmp.Diff(want, anchors), "")
	for _, wrong := range []string{"5", "x " + journal.Hash{}.String(), "5 00", "0 " + journal.Hash{}.String(), "-1 " + journal.Hash{}.String(), "5 " + journal.Hash{}.String() + "0"} {
		if _, err := journal.ReadAnchors(strings.NewReader("\n" + wrong)); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	last := uint64(0)
	audited, err := verify.Audit(t.Context(), r.Folder(), anchors, func(seq uint64) { last = seq })
	if err != nil || audited.Compared != 2 || audited.First != 1 || last != 100 || audited.State.Seq != 100 {
		t.Fatalf("%+v, %d, %v", audited, last, err)
	}
	_, err = audit(t, e.dir, journal.Anchor{Seq: 101, Hash: journal.Hash{1}})
	refused(t, "Audit", err, 101, "an anchor knows event 101, the journal ends at 100")
	_, err = audit(t, e.dir, journal.Anchor{Seq: 60, Hash: journal.Hash{1}})
	refused(t, "Audit", err, 60, "the history was rewritten")
}

// mutations is how many mutations TestTamperingRun tries. TORTURE=long in the environment makes it
// what an auditor tried.
var mutations = flag.Int("mutations", 0, "how many mutations the tampering run tries; 0: each once, or 1600 where TORTURE is long")

var tamperingSeed = flag.Uint64("tampering-seed", 0, "the seed of the tampering run's first mutation; 0: a new one")

// mutation does something to a journal. It tells whether that can't be found without an anchor by
// nature: what is there is then just what a worker would have written.
type mutation struct {
	name string
	do   func(t *testing.T, random *rand.Rand, s scene, dir string) (natural bool)
}

// anyFile chooses one of a folder's files.
func anyFile(t *testing.T, random *rand.Rand, dir string) string {
	t.Helper()
	all := readtest.Names(t, dir)
	return filepath.Join(dir, all[random.IntN(len(all))])
}

// file is a mutation of a file's bytes.
func file(name string, change func(random *rand.Rand, b []byte) []byte) mutation {
	return mutation{name, func(t *testing.T, random *rand.Rand, _ scene, dir string) bool {
		path := anyFile(t, random, dir)
		t.Log(filepath.Base(path))
		changeFile(t, path, func(b []byte) []byte {
			if len(b) == 0 {
				return []byte("x")
			}
			return change(random, b)
		})
		return false
	}}
}

// forged is a mutation by one of the forgers.
func forged(name string, natural bool, tamper func(*testing.T, *rand.Rand, string)) mutation {
	return mutation{name, func(t *testing.T, random *rand.Rand, _ scene, dir string) bool {
		tamper(t, random, dir)
		return natural
	}}
}

// sql4 is a mutation of the newest segment by a statement about some of its rows.
func sql4(name, statement string, natural bool) mutation {
	return mutation{name, func(t *testing.T, random *rand.Rand, _ scene, dir string) bool {
		text := statement
		if bytes.Contains([]byte(statement), []byte("%d")) {
			text = fmt.Sprintf(statement, 76+random.IntN(50))
		}
		t.Log(text)
		readtest.Tamper(4, text)(t, dir)
		return natural
	}}
}

// take puts files of another folder in the place of a journal's own.
func take(t *testing.T, from, dir string, files ...string) {
	t.Helper()
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = errors.Join(os.RemoveAll(filepath.Join(dir, name)), os.WriteFile(filepath.Join(dir, name), content, 0o600))
		}
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

var allMutations = []mutation{
	file("a bit", func(random *rand.Rand, b []byte) []byte { b[random.IntN(len(b))] ^= 1 << random.IntN(8); return b }),
	file("a few bytes", func(random *rand.Rand, b []byte) []byte {
		for range 1 + random.IntN(20) {
			b[random.IntN(len(b))] = byte(random.IntN(256))
		}
		return b
	}),
	file("a stretch of zeros", func(random *rand.Rand, b []byte) []byte {
		at := random.IntN(len(b))
		clear(b[at:min(len(b), at+1+random.IntN(4096))])
		return b
	}),
	file("cut off", func(random *rand.Rand, b []byte) []byte { return b[:random.IntN(len(b))] }),
	file("something behind it", func(random *rand.Rand, b []byte) []byte { return append(b, byte(random.IntN(256))) }),
	file("pages swapped", func(random *rand.Rand, b []byte) []byte {
		const page = 512
		if n := len(b) / page; n > 1 {
			a, c := random.IntN(n)*page, random.IntN(n)*page
			x, y := slices.Clone(b[a:a+page]), slices.Clone(b[c:c+page])
			copy(b[a:], y)
			copy(b[c:], x)
		}
		return b
	}),
	{"a file removed", func(t *testing.T, random *rand.Rand, _ scene, dir string) bool {
		path := anyFile(t, random, dir)
		t.Log(filepath.Base(path))
		must.Do(t, os.Remove(path))
		return filepath.Base(path) == filepath.Base(archive.SealedPath("", 1)) // which retention has removed, as its event says
	}},
	{"the oldest removed, and the note edited", func(t *testing.T, random *rand.Rand, _ scene, dir string) bool {
		n := 1 + random.IntN(3)
		for number := 1; number <= n; number++ {
			must.Do(t, os.Remove(archive.SealedPath(dir, number)))
		}
		readtest.Tamper(4, fmt.Sprintf(`UPDATE mirror SET kept = %d`, n+1))(t, dir)
		return n == 1
	}},
	forged("sealed segments swapped", false, swapSealed),
	forged("a sealed event changed", false, rewriteSealed(changeOne, false)),
	forged("a sealed event deleted", false, rewriteSealed(deleteOne, false)),
	forged("sealed events swapped", false, rewriteSealed(swapTwo, false)),
	forged("a sealed segment forged", false, rewriteSealed(changeOne, true)),
	forged("a sealed segment's end cut off", false, rewriteSealed(cutTail, true)),
	forged("an open event changed", false, rewriteOpen(changeOne, false)),
	forged("an open event deleted", false, rewriteOpen(deleteOne, false)),
	forged("open events swapped", false, rewriteOpen(swapTwo, false)),
	forged("the open segment forged", true, rewriteOpen(changeOne, true)),
	forged("the end cut off, and the head mended", true, rewriteOpen(cutTail, true)),
	forged("a checkpoint forged", false, forgeCheckpoint),
	forged("all forged from an event on", true, func(t *testing.T, random *rand.Rand, dir string) {
		accepted := []uint64{1, 5, 6, 10, 26, 30, 51, 55, 76, 80, 86}
		forgeFrom(t, dir, accepted[random.IntN(len(accepted))])
	}),
	{"another worker's segment", func(t *testing.T, random *rand.Rand, s scene, dir string) bool {
		take(t, s.foreign, dir, filepath.Base(anySealed(random, dir)))
		return false
	}},
	{"another worker's journal", func(t *testing.T, _ *rand.Rand, s scene, dir string) bool {
		must.Do(t, os.RemoveAll(dir))
		must.Do(t, os.Mkdir(dir, 0o700))
		take(t, s.foreign, dir, readtest.Names(t, s.foreign)...)
		return true
	}},
	{"an older file", func(t *testing.T, random *rand.Rand, s scene, dir string) bool {
		files := []string{"head", "segment-00000004.db"}
		if n := random.IntN(3); n < 2 {
			take(t, s.earlier, dir, files[n])
			if n == 1 {
				take(t, s.earlier, dir, "segment-00000004.db-wal")
			}
			return n == 0 // an older head is legal, after a power cut
		}
		take(t, s.earlier, dir, "head", "segment-00000004.db", "segment-00000004.db-wal")
		return true
	}},
	sql4("a time", `UPDATE records SET time = time + 1 WHERE seq = %d`, false),
	sql4("a job", `UPDATE records SET job = job + 1 WHERE seq = %d`, false),
	sql4("a kind", `UPDATE records SET kind = 'ignored' WHERE seq = %d`, false),
	sql4("a payload", `UPDATE records SET payload = payload || ' ' WHERE seq = %d`, false),
	sql4("output", `UPDATE records SET stdout = x'616263' WHERE seq = %d`, false),
	sql4("a hash", `UPDATE records SET hash = zeroblob(32) WHERE seq = %d`, false),
	sql4("a number", `UPDATE records SET seq = seq + 1000 WHERE seq = %d`, false),
	sql4("a row", `DELETE FROM records WHERE seq = %d`, false),
	sql4("the last rows", `DELETE FROM records WHERE seq >= %d`, false),
	sql4("a row added", `INSERT INTO records VALUES (%d + 60, 0, 0, 'closed', '{}', NULL, NULL, zeroblob(32))`, false),
	sql4("a header", `UPDATE segment SET header = CAST(header || ' ' AS BLOB)`, false),
	sql4("the note", `UPDATE mirror SET kept = 4`, false),
	sql4("the position", `UPDATE mirror SET seq = 1`, true), // for the worker's own use; no event
	sql4("the view", `DROP VIEW events`, false),
	sql4("a trigger", `CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM mirror; END`, false),
}

// With an anchor of its newest event no change of any file of a journal with archives stays silent,
// and what is called proven is what was written. Without an anchor that holds too, but for what is
// just what a worker would have written: a history that was rewritten, or cut off, with all that
// belongs to it. Such mutations say so.
func TestTamperingRun(t *testing.T) {
	t.Parallel()
	s := makeScene(t)
	n, seed := *mutations, *tamperingSeed
	if n == 0 {
		if n = len(allMutations); os.Getenv("TORTURE") == "long" {
			n = 1600
		}
	}
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-tampering-seed %d -mutations %d", seed, n)
	harmless, natural := 0, 0
	for i := range n {
		m := allMutations[i%len(allMutations)]
		ok := t.Run(fmt.Sprintf("%d %s", i, m.name), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			dir := readtest.CopyFolder(t, s.dir)
			byNature := m.do(t, random, s, dir)
			changed := !sameEvents(s.truth, rawEvents(t, dir))
			for _, anchors := range [][]journal.Anchor{s.anchors, s.anchors[3:], s.anchors[:2], nil} {
				a, err := auditFolder(t, dir, anchors)
				whole := len(anchors) > 0 && anchors[len(anchors)-1] == s.anchors[3]
				removed := err == nil && a.First > 1 // which is told
				switch {
				case err != nil && a == nil, !changed || err != nil, removed:
				case whole:
					t.Errorf("silent with an anchor of the newest event: %+v", a)
				case !byNature:
					t.Errorf("silent with %d anchors: %+v", len(anchors), a)
				}
				if a != nil {
					checkProven(t, s, dir, a, anchors)
				}
				if anchors == nil && err == nil && changed {
					natural++
				}
				if anchors == nil && !changed && err == nil {
					harmless++
				}
			}
			must.Do(t, os.RemoveAll(dir))
		})
		if !ok {
			t.Fatalf("again: go test ./journal -run 'TestTamperingRun' -tampering-seed %d -mutations %d", seed, n)
		}
	}
	t.Logf("%d mutations: 0 silent with an anchor; %d changed no event and are no damage, %d are found by an anchor only, by nature", n, harmless, natural)
}

// auditFolder audits a folder; nothing where it can't even be opened, which is not silent.
func auditFolder(t *testing.T, dir string, anchors []journal.Anchor) (*verify.Audited, error) {
	t.Helper()
	r, err := replay.Open(dir)
	if err != nil {
		return nil, err
	}
	return verify.Audit(t.Context(), r.Folder(), anchors, nil)
}

func sameEvents(a, b map[uint64][]byte) bool {
	for seq, content := range a {
		if !bytes.Equal(content, b[seq]) {
			return false
		}
	}
	return len(a) == len(b)
}

// checkProven checks that what is called proven is what was written, and that nothing is called sound up to
// an event that an anchor knows otherwise.
func checkProven(t *testing.T, s scene, dir string, a *verify.Audited, anchors []journal.Anchor) {
	t.Helper()
	raw := rawEvents(t, dir)
	for seq := max(a.First, 1); seq <= a.Proven; seq++ {
		if !bytes.Equal(raw[seq], s.truth[seq]) || raw[seq] == nil {
			t.Errorf("event %d is called proven and is not what was written: %+v", seq, a)
			return
		}
	}
	for _, anchor := range anchors {
		content, there := raw[anchor.Seq]
		other := there && !bytes.HasSuffix(content, anchor.Hash[:]) && !bytes.Equal(unhashed(content), unhashed(s.truth[anchor.Seq]))
		if other && a.Events >= anchor.Seq {
			t.Errorf("the anchor of %d disagrees, and events are called sound up to %d", anchor.Seq, a.Events)
		}
	}
}

// unhashed is what a record's hash is made of, without the hash before it.
func unhashed(raw []byte) []byte { return raw[:len(raw)-len(journal.Hash{})] }

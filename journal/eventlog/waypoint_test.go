package eventlog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/replay"
	"jobd/journal/verify"
)

// marked is a closed journal of one segment: 20 events of five lives and one of a job that waits, a
// waypoint, then 8 events of two lives.
func marked(t *testing.T) (dir string) {
	t.Helper()
	j := openWith(t, Config{Dir: t.TempDir(), Now: ticking()})
	for job := range int64(5) {
		mustAppend(t, j, wholeLife(job+1)...)
	}
	mustAppend(t, j, journal.Draft{Job: 99, Payload: journal.Accepted{Target: "t", Token: "@waiting"}})
	if err := j.placeWaypoint(); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, wholeLife(6)...)
	mustAppend(t, j, wholeLife(7)...)
	mustClose(t, j)
	return j.config.Dir
}

// verifiedAtStart is which events a start verifies, and the state that it comes to.
func verifiedAtStart(t *testing.T, dir string) (weighed int, state journal.State) {
	t.Helper()
	j := openTest(t, dir)
	defer mustClose(t, j)
	return j.recent.since, snapshot(j)
}

func TestStartGoesOnFromTheWaypoint(t *testing.T) {
	t.Parallel()
	with := marked(t)
	without := copyFolder(t, with)
	if err := os.Remove(filepath.Join(without, archive.WaypointFile)); err != nil {
		t.Fatal(err)
	}
	tail, state := verifiedAtStart(t, with)
	all, want := verifiedAtStart(t, without)
	if one := (journal.Event{Payload: journal.Running{}}).Weight(); tail/one != 8 || all/one != 29 {
		t.Errorf("%d events were verified with the waypoint, %d without it, and not 8 and 29", tail/one, all/one)
	}
	if diff := cmp.Diff(want, state); diff != "" {
		t.Errorf("the state is another (-without the waypoint +with it):\n%s", diff)
	}
	if _, err := verifyAll(t.Context(), openReader(t, with)); err != nil {
		t.Error(err)
	}
}

// What was done to the events behind the waypoint is found by the next start; what was done before
// it, by verification, and by sealing.
func TestTamperingBesideAWaypoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tamper func(*testing.T, string)
		seq    uint64
		start  bool // finds it
	}{
		"before it":        {tamper(`UPDATE records SET payload = '{"attempt":2}' WHERE seq = 6`), 6, false},
		"removed before":   {tamper(`DELETE FROM records WHERE seq = 7`), 7, false},
		"its own event":    {tamper(`UPDATE records SET hash = x'` + strings.Repeat("00", 32) + `' WHERE seq = 21`), 21, true},
		"the event behind": {tamper(`UPDATE records SET time = time + 1 WHERE seq = 22`), 22, true},
		"the last event":   {tamper(`DELETE FROM records WHERE seq = 29`), 29, true},
		"the first event":  {tamper(`DELETE FROM records WHERE seq = 1`), 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := marked(t)
			c.tamper(t, dir)
			var damage *journal.DamagedError
			if _, err := verifyAll(t.Context(), openReader(t, dir)); !errors.As(err, &damage) || damage.Seq != c.seq {
				t.Errorf("Verify: %v, not damage at event %d", err, c.seq)
			}
			j, err := Open(t.Context(), Config{Dir: dir})
			if c.start {
				if !errors.As(err, &damage) || damage.Seq != c.seq {
					t.Errorf("Open: %v, not damage at event %d", err, c.seq)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer mustClose(t, j)
			roll(t, j)
			mustAppend(t, j, wholeLife(8)...)
			if err := j.Maintain(t.Context()); !errors.As(err, &damage) || damage.Seq != c.seq {
				t.Errorf("sealing: %v, not damage at event %d", err, c.seq)
			}
		})
	}
}

// rewriteWaypoint changes the file's content, and mends its sum.
func rewriteWaypoint(old, by string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		onFile(archive.WaypointFile, func(data []byte) []byte {
			_, content, _ := strings.Cut(string(data), "\n")
			if !strings.Contains(content, old) {
				t.Fatalf("%s has no %s", content, old)
			}
			content = strings.Replace(content, old, by, 1)
			return []byte(fmt.Sprintf("jobd-waypoint %s\n", journal.Hash(sha256.Sum256([]byte(content)))) + content)
		})(t, dir)
	}
}

// A start does without a waypoint that does not fit, and removes it. Verification finds it. A
// forged state, which fits, is found by sealing too.
func TestForgedWaypoints(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		forge func(*testing.T, string)
		says  string
		fits  bool
	}{
		"another byte":     {onFile(archive.WaypointFile, func(data []byte) []byte { data[len(data)-9] ^= 1; return data }), "not readable", false},
		"empty":            {onFile(archive.WaypointFile, func([]byte) []byte { return nil }), "not readable", false},
		"another event":    {rewriteWaypoint(`"event":"21 `, `"event":"20 `), "at event 20: the waypoint file disagrees", false},
		"of no event":      {rewriteWaypoint(`"event":"21 `, `"event":"21000 `), "the waypoint file knows event 21000, the journal ends at 29", false},
		"no event at all":  {rewriteWaypoint(`"event":"21 `, `"event":"`), "not readable", false},
		"a job left out":   {rewriteWaypoint(`"id":99`, `"id":98`), "at event 21: the waypoint file disagrees", true},
		"another worker's": {rewriteWaypoint(`"state":{`, `"state":{"name":"other",`), "at event 21: the waypoint file disagrees", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := marked(t)
			c.forge(t, dir)
			if _, err := verifyAll(t.Context(), openReader(t, dir)); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Verify: %v, not %q", err, c.says)
			}
			j := openTest(t, dir)
			_, err := os.Stat(filepath.Join(dir, archive.WaypointFile))
			if there := err == nil; there != c.fits {
				t.Errorf("after a start the file is there: %t", there)
			}
			roll(t, j)
			mustAppend(t, j, wholeLife(8)...)
			if err := j.Maintain(t.Context()); (err != nil) != c.fits {
				t.Errorf("sealing: %v", err)
			}
		})
	}
}

// Whatever a crash leaves of waypoints, the next start comes to the same state.
func TestCrashesBesideAWaypoint(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]func(*testing.T, string){
		"half a new one": func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, archive.WaypointFile+".partial"), []byte("jobd-way"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"the head file is older": func(t *testing.T, dir string) {
			first := events(t, openReader(t, dir), journal.Filter{})[2]
			onFile("head", func([]byte) []byte { return fmt.Appendf(nil, headFormat, first.Seq, first.Hash) })(t, dir)
		},
		"it was not written": func(t *testing.T, dir string) { _ = archive.RemoveIfThere(filepath.Join(dir, archive.WaypointFile)) },
		"a new segment has begun since": func(t *testing.T, dir string) {
			kept, err := os.ReadFile(filepath.Join(dir, archive.WaypointFile))
			if err != nil {
				t.Fatal(err)
			}
			j := openTest(t, dir)
			roll(t, j)
			mustAppend(t, j, wholeLife(8)...)
			mustMaintain(t, j)
			mustClose(t, j)
			if now, err := os.ReadFile(filepath.Join(dir, archive.WaypointFile)); err != nil || string(now) != string(kept) {
				t.Fatalf("the waypoint of the segment before is another: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := marked(t)
			crash(t, dir)
			j := openTest(t, dir)
			mustAppend(t, j, wholeLife(9)...)
			if err := j.placeWaypoint(); err != nil {
				t.Fatal(err)
			}
			want := snapshot(j)
			mustClose(t, j)
			if _, got := verifiedAtStart(t, dir); cmp.Diff(want, got) != "" {
				t.Error(cmp.Diff(want, got))
			}
			if _, err := verifyAll(t.Context(), openReader(t, dir)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Run writes a waypoint when enough was appended, also for what a start had to fold.
func TestRunPlacesWaypoints(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	run := func(j *Log) { go func() { done <- j.Run(ctx) }() }
	run(j)
	life := wholeLife(1)
	life[3].Payload = journal.Done{Result: "ok", Stdout: journal.Output{Kept: make([]byte, verify.WaypointWeight), Size: verify.WaypointWeight}}
	mustAppend(t, j, life...)
	placed := func() bool {
		content, err := os.ReadFile(filepath.Join(j.config.Dir, archive.WaypointFile))
		return err == nil && strings.Contains(string(content), `"event":"4 `)
	}
	eventually(t, "a waypoint was placed", placed)
	mustClose(t, j)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(j.config.Dir, archive.WaypointFile)); err != nil {
		t.Fatal(err)
	}
	run(openTest(t, j.config.Dir))
	eventually(t, "what the start folded has a waypoint", placed)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// Waypoints are written beside appends and read beside both.
func TestWaypointsBesideAppendsAndReaders(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	ended := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		r, err := replay.Open(j.config.Dir)
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Close()
		for again := true; again; {
			select {
			case <-ended:
				again = false
			default:
			}
			if _, err := verifyAll(context.Background(), r); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for job := int64(1); job <= 200; job++ {
		mustAppend(t, j, wholeLife(job)...)
		if job%7 == 0 {
			if err := j.placeWaypoint(); err != nil {
				t.Error(err)
			}
		}
	}
	close(ended)
	reading.Wait()
}

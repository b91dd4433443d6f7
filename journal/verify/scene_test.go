package verify_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
	"jobd/journal/journaltest/readtest"
	"jobd/store/storetest/must"
)

// scene is a journal with its archive in one folder, and what somebody may put in its place.
type scene struct {
	dir     string // four segments: one that retention has archived, two sealed, and one open
	earlier string // the same when the open segment had half of its events
	foreign string // another worker's journal, of as many segments
	truth   map[uint64][]byte
	anchors []journal.Anchor // of events 10, 51, 90 and the newest
}

func makeScene(t *testing.T) scene {
	t.Helper()
	s := scene{truth: map[uint64][]byte{}}
	j := journaltest.Rolled(t, 4, 5)
	archive := t.TempDir()
	j.Reopen(t, func(c *eventlog.Config) { c.Retention, c.ArchiveDir = time.Nanosecond, archive })
	journaltest.MustMaintain(t, j)
	j.SetPosition(25)
	journaltest.MustMaintain(t, j)
	s.earlier = readtest.CopyFolder(t, j.Dir)
	for job := range int64(5) {
		journaltest.MustAppend(t, j, readtest.WholeLife(500+job)...)
	}
	journaltest.MustAppend(t, j, readtest.WholeLife(600)...)
	journaltest.MustClose(t, j)
	s.dir = readtest.CopyFolder(t, j.Dir)
	for _, dir := range []string{s.dir, s.earlier} {
		must.Do(t, os.CopyFS(dir, os.DirFS(archive)))
	}
	other := journaltest.Rolled(t, 4, 5)
	journaltest.MustAppend(t, other, journal.Draft{Job: 77, Payload: journal.Ignored{Reason: "it is another worker's"}})
	journaltest.MustMaintain(t, other)
	journaltest.MustClose(t, other)
	s.foreign = other.Dir
	all := readtest.Events(t, readtest.OpenReader(t, s.dir), journal.Filter{Output: true})
	for _, seq := range []int{10, 51, 90, len(all)} {
		s.anchors = append(s.anchors, anchorOf(all[seq-1]))
	}
	s.truth = rawEvents(t, s.dir)
	must.Equal(t, len(s.truth), 125, "events")
	return s
}

// rawEvents is every record that can be read in a folder, as bytes, whatever its hash says.
func rawEvents(t *testing.T, dir string) map[uint64][]byte {
	t.Helper()
	found := map[uint64][]byte{}
	parts := must.Get(archive.List(dir))(t)
	for _, p := range parts {
		s, err := p.Open()
		if err != nil {
			continue
		}
		for page := range s.Records(t.Context(), archive.Selection{Output: true}) {
			for i := range page {
				r := &page[i]
				b := fmt.Appendf(nil, "%d %d %d %q %q %q %q", r.Seq, r.Micros, r.Job, r.Kind, r.Payload, r.Stdout, r.Stderr)
				if _, there := found[r.Seq]; !there { // else it bears the number of an event of an older segment
					found[r.Seq] = append(b, r.Hash[:]...)
				}
			}
		}
		must.Do(t, s.Close())
	}
	return found
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

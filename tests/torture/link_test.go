package torture

import (
	"math/rand/v2"
	"testing"
	"time"

	"jobd/store/storetest/linkproxy"
	"jobd/tests/harness"
)

// polling makes a worker look for jobs by itself, so that a test needs no clients.
var polling = harness.Settings{"poll_interval": "200ms"}

// awaitProgress waits until n jobs are done.
func awaitProgress(t *testing.T, s *site, n int) {
	t.Helper()
	n = min(n, s.jobs)
	if !await(func() bool { return s.Count(t, "status = 'done'") >= n }) {
		t.Fatalf("only %d jobs are done, not %d:\n%s", s.Count(t, "status = 'done'"), n, s.undone(t))
	}
}

// known is the audit of a site none of whose processes was killed: all outcomes are known.
func (s *site) known(t *testing.T, journals ...string) tally {
	t.Helper()
	found := s.audit(t, journals...)
	if found.unknown > 0 {
		t.Errorf("%d outcomes are unknown, though no process was killed", found.unknown)
	}
	return found
}

// Links break around the bytes of a COMMIT, of a claim or of the mirror, many times.
func TestLinkCutAtCommits(t *testing.T) {
	t.Parallel()
	s := newSite(t, "", map[string]int{"a": 4}, polling)
	link := harness.NewLink(t, s.Addr)
	s.settings = s.settings.With(link.ToDatabase())
	s.start(t)
	cuts := size(20, 500)
	for range cuts {
		fault := linkproxy.Fault(rand.IntN(3))
		broken := link.Break("; COMMIT", fault)
		s.insert(t, 3, "a")
		select {
		case <-broken.Done:
		case <-time.After(patience):
			t.Fatalf("no COMMIT was sent for %s:\n%s", patience, s.undone(t))
		}
		if fault == linkproxy.Held {
			<-atRandom(200 * time.Millisecond)
			broken.Release()
		}
		s.awaitDone(t) // else retries would wait longer and longer
	}
	suite.matrix.add(line{fault: "4 link cut at a COMMIT", runs: cuts, tally: s.known(t)})
}

package time

import (
	"testing"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Rows that are due in the same second are found by the timers of two workers, none before its time
// and none twice. Nobody polls, and nobody is told of them.
func TestManyRowsDueInOneSecond(t *testing.T) {
	t.Parallel()
	jobs := size(1000, 10_000)
	var s *site
	var one, two harness.Settings
	var due int64
	for ahead := size[int64](4, 15); ; ahead *= 2 {
		s = newSite(t, "")
		due = s.now() + ahead
		rows := make([]timed, jobs)
		for i := range rows {
			rows[i] = timed{id: int64(i + 1), runAt: due}
		}
		s.insert(rows...)
		one, two = s.worker("w1", map[string]int{"a": 8}), s.worker("w2", map[string]int{"a": 8})
		early := []*harness.Daemon{one.StartWorker(t), two.StartWorker(t)}
		if s.now() < due {
			break
		}
		for _, worker := range early { // on a busy machine the rows were due before the workers had started
			worker.Crash(t)
		}
	}
	s.awaitAll(jobs)
	s.expectOnce(jobs)
	for _, settings := range []harness.Settings{one, two} {
		claims := claimsOf(t, settings)
		for _, c := range claims {
			if c.at < due {
				t.Fatalf("%s claimed job %d at %d, and it was due at %d", settings["name"], c.job, c.at, due)
			}
		}
		if len(claims) == 0 {
			t.Errorf("%s had no part in it", settings["name"])
		}
	}
}

// awaitAll waits until so many rows are done; as long as there are more and more of them it has patience.
func (s *site) awaitAll(n int) {
	s.t.Helper()
	s.awaitCountGrowing(n, "status = 'done'")
}

// expectOnce checks that jobs 1 to n were started once each, and none else.
func (s *site) expectOnce(n int) {
	s.t.Helper()
	times := map[int64]int{}
	for _, begun := range s.oracle.starts(s.t) {
		if times[begun.id]++; times[begun.id] > 1 {
			s.t.Errorf("job %d was started %d times", begun.id, times[begun.id])
		}
	}
	if len(times) != n {
		s.t.Errorf("%d jobs were started, not %d", len(times), n)
	}
}

// expectNotBefore checks that no row says that it was started before it was due. The machine's clock is
// the server's.
func (s *site) expectNotBefore() {
	s.t.Helper()
	for _, r := range s.rows("status = 'done' AND time_started < run_at") {
		s.t.Errorf("%s was started at %d", r, r.started)
	}
}

// claimed is a row of a claim, as the journal has it.
type claimed struct {
	job int64
	at  int64 // in seconds
}

// claimsOf reads what a worker claimed, in its order.
func claimsOf(t testing.TB, settings harness.Settings) (claims []claimed) {
	t.Helper()
	for _, e := range events(t, settings, journal.KindAccepted) {
		claims = append(claims, claimed{e.Job, e.Time.Unix()})
	}
	return claims
}

// events reads a worker's journal: the events of some kinds, or all.
func events(t testing.TB, settings harness.Settings, kinds ...journal.Kind) (found []journal.Event) {
	t.Helper()
	reader := must.Get(replay.Open(settings["journal_dir"]))(t)
	for e, err := range reader.Events(t.Context(), journal.Filter{Kinds: kinds}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, e)
	}
	return found
}

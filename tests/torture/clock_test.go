package torture

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// The clocks of a worker and its runner are set by a day, forth and back, under load and while the database is away; then
// a worker starts whose clock is behind all that is in the journal. Jobs run on, nothing ends before it
// began, and whatever waits, waits as long as it would have.
func TestClockSet(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	master := harness.StartMaster(t)
	s := newSite(t, shortJob, map[string]int{"a": 4}, polling, harness.MasterOf(master))
	link := harness.NewLink(t, s.Addr)
	s.settings = s.settings.With(link.ToDatabase())
	worker, _ := s.start(t)
	clocks := []wallClock{newWallClock(t, worker.Pid), newWallClock(t, harness.RunnerOf(s.settings["journal_dir"]))}
	client := harness.Dial(t, worker.Addr)
	client.Ask(t, "status", nil)
	batch, furthest := size(60, 1000), time.Duration(0)
	steps := []time.Duration{day, -day, 0, 400 * day, -day, day}
	for _, ahead := range steps {
		s.insert(t, batch, "a")
		awaitProgress(t, s, s.jobs-batch+4)
		for _, clock := range clocks {
			clock.set(t, ahead)
		}
		link.Away()
		<-time.After(500 * time.Millisecond) // that is how long it is away
		link.Back()
		s.awaitDone(t)
		furthest = max(furthest, ahead)
		if s.Count(t, "time_finished > ?", time.Now().Add(furthest-time.Hour).Unix()) == 0 {
			t.Errorf("no job finished %s ahead of the machine's clock: that of the worker was not set", furthest)
		}
	}
	client.Ask(t, "status", nil) // its connection did not end
	s.insert(t, batch, "a")
	awaitProgress(t, s, s.jobs-batch/2)
	worker.Signal(t, syscall.SIGTERM)
	if code := worker.ExitCode(t); code != 0 {
		t.Errorf("stopped with %d:\n%s", code, worker.Output())
	}
	if strings.Contains(worker.Output(), "no connection to the master") {
		t.Errorf("the master was lost:\n%s", worker.Output())
	}
	s.start(t)
	s.awaitDone(t)
	checkTimes(t, s.settings["journal_dir"])
	suite.matrix.add(line{fault: "10 clock set by a day and a year, forth and back", runs: len(steps) + 1, tally: s.known(t)})
}

// checkTimes checks that no event of a journal is older than the one before it.
func checkTimes(t *testing.T, dir string) {
	t.Helper()
	reader := must.Get(replay.Open(dir))(t)
	var last journal.Event
	for e, err := range reader.Events(t.Context(), journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Time.Before(last.Time) {
			t.Errorf("event %d is of %s, and %d behind it of %s", last.Seq, last.Time, e.Seq, e.Time)
		}
		last = e
	}
	if last.Seq == 0 {
		t.Error("the journal is empty")
	}
}

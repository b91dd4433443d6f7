package exec

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

func TestThePollIntervalIsOffByAFifthAtMost(t *testing.T) {
	t.Parallel()
	w, now := &Worker{}, time.Now()
	if !w.nextPoll(now).IsZero() {
		t.Error("an interval of 0 is none")
	}
	w.PollInterval = 30 * time.Second
	seen := make(map[time.Duration]bool)
	for range 1000 {
		in := w.nextPoll(now).Sub(now)
		if seen[in] = true; in < 24*time.Second || in > 36*time.Second {
			t.Fatalf("next poll in %s", in)
		}
	}
	if len(seen) < 100 {
		t.Errorf("%d different intervals", len(seen))
	}
}

// Regression: a time that had passed and was nobody's any more kept the claim loop busy for ever.
func TestNothingIsDueInAWorkerAtRest(t *testing.T) {
	t.Parallel()
	w := New(Config{Name: "node-1", Targets: map[string]int{"a": 1}, LostAfter: time.Hour})
	w.survey = board.Backoff{}
	w.identity = identity{workerID: workerIDOf("node-1", 0), checked: time.Now()}
	if left := w.untilDue(time.Now()); left < time.Minute {
		t.Errorf("the loop wakes again after %s", left)
	}
}

// mute is a process of which the runner never tells anything.
type mute struct{ never chan struct{} }

func (m mute) Begun() <-chan struct{}       { return m.never }
func (m mute) Ended() <-chan struct{}       { return m.never }
func (mute) Started() journal.Started       { return journal.Started{} }
func (mute) Signal(int) error               { return board.ErrGone }
func (mute) Outcome() (journal.Done, error) { return journal.Done{}, ErrOutcomeUnknown }

// A runner that does not answer is told of when a target is paused: what it was asked for may still
// start.
func TestAPauseSaysThatTheRunnerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := New(Config{Targets: map[string]int{"a": 1, "b": 1}})
	w.startsTimeout = time.Millisecond
	w.board.Adopt(journal.Job{ID: 1, Target: "a", Status: journal.StatusStarting}, mute{make(chan struct{})})
	if err := w.awaitStarts([]string{"b"}); err != nil {
		t.Errorf("a target whose runner has told all: %v", err)
	}
	for _, names := range [][]string{{"a"}, nil} {
		err := w.awaitStarts(names)
		var refused RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "1 jobs may still start") {
			t.Errorf("%v: the answer is %v", names, err)
		}
	}
}

// Regression: what fails for several targets is divided, whatever the error's number says.
func TestTargetsWhoseClaimsHaveFailedAreClaimedForOneByOne(t *testing.T) {
	t.Parallel()
	w := New(Config{Targets: map[string]int{"a": 1, "b": 1, "c": 1}})
	w.PollAll()
	if r := w.nextRound(); len(r.room) != 3 {
		t.Fatalf("nothing has failed: claimed for %v together, want all", r.room)
	}
	w.targets["a"].trouble.alone, w.targets["b"].trouble.alone = true, true
	alone := make(map[string]bool)
	for range 3 {
		r := w.nextRound()
		for name := range r.room {
			alone[name] = true
		}
		if len(r.room) != 1 {
			t.Errorf("claimed for %v together", r.room)
		}
	}
	if len(alone) != 3 {
		t.Errorf("claimed for %v: each is to have its turn", alone)
	}
}

// A fetch limit is shared among the targets, so that none waits behind another one.
func TestTheFetchLimitIsShared(t *testing.T) {
	t.Parallel()
	w := &Worker{Config: Config{FetchLimit: 10}}
	for _, test := range []struct{ room, want map[string]int }{
		{map[string]int{"a": 3, "b": 4}, map[string]int{"a": 3, "b": 4}},
		{map[string]int{"a": 100, "b": 100}, map[string]int{"a": 5, "b": 5}},
		{map[string]int{"a": 2, "b": 100, "c": 100}, map[string]int{"a": 2, "b": 4, "c": 4}},
	} {
		room := maps.Clone(test.room)
		if w.limit(room); !maps.Equal(room, test.want) {
			t.Errorf("%v is limited to %v, want %v", test.room, room, test.want)
		}
	}
	w.FetchLimit = 2
	room := map[string]int{"a": 9, "b": 9, "c": 9}
	if w.limit(room); len(room) != 2 || slices.Max(slices.Collect(maps.Values(room))) != 1 {
		t.Errorf("with a limit of 2 it is %v", room)
	}
}

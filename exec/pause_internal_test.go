package exec

import (
	"errors"
	"strings"
	"testing"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

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

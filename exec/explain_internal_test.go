package exec

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// leftAlone is a process that goes on without its runner.
type leftAlone struct{ mute }

func (leftAlone) Adopted() bool { return true }

// Which process a job has is told by the process itself, or else by the journal, of the same
// attempt.
func TestIdentify(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		process board.Process
		known   journal.Job
		pid     int
		adopted bool
	}{
		"nothing is known":           {mute{}, journal.Job{Attempt: 1}, 0, false},
		"the journal knows":          {nil, journal.Job{Attempt: 1, Process: &journal.Started{Pid: 7}}, 7, false},
		"it knows of another start":  {nil, journal.Job{Attempt: 2, Process: &journal.Started{Pid: 7}}, 0, false},
		"its runner has left it":     {leftAlone{}, journal.Job{Attempt: 1, Process: &journal.Started{Pid: 7}}, 7, true},
		"it has not been asked for":  {nil, journal.Job{}, 0, false},
		"its runner has not told it": {mute{}, journal.Job{Attempt: 1, Process: &journal.Started{Pid: 8}}, 8, false},
	} {
		s := JobStanding{Standing: board.Standing{Attempt: 1, Process: test.process}}
		if s.identify(test.known); s.Started.Pid != test.pid || s.Adopted != test.adopted {
			t.Errorf("%s: pid %d, adopted %v", name, s.Started.Pid, s.Adopted)
		}
	}
}

// Each hindrance has its word, and since when it holds where that is known.
func TestHindrancesHaveWords(t *testing.T) {
	t.Parallel()
	since := time.Unix(1_000_000, 0)
	for kind, test := range map[Hindering]struct {
		begin func(w *Worker, a *target)
		away  bool
		since time.Time
	}{
		"":                 {begin: func(*Worker, *target) {}},
		HinderedStopping:   {begin: func(w *Worker, _ *target) { w.board.Stop() }},
		HinderedName:       {begin: func(_ *Worker, a *target) { a.unfit = "it is too long" }},
		HinderedDisk:       {begin: func(w *Worker, _ *target) { w.outage.note(journal.ErrFull, since) }, since: since},
		HinderedDatabase:   {begin: func(w *Worker, _ *target) { w.outage.note(errors.New("refused"), since) }, since: since},
		HinderedStuck:      {begin: func(w *Worker, _ *target) { w.asked = since }, since: since},
		HinderedUnwritten:  {begin: func(*Worker, *target) {}, away: true},
		HinderedIdentity:   {begin: func(w *Worker, _ *target) { w.identity.why, w.identity.since = "taken", since }, since: since},
		HinderedExecutor:   {begin: func(w *Worker, a *target) { w.board.SetUnable(a.Target, "it never says ready", since) }, since: since},
		HinderedRetirement: {begin: func(w *Worker, a *target) { w.board.Retire(a.Target, "me") }},
		HinderedTrouble:    {begin: func(_ *Worker, a *target) { a.trouble.why = "collations" }},
		HinderedCrowded:    {begin: func(w *Worker, _ *target) { park(w, 100) }},
		HinderedRate: {begin: func(_ *Worker, a *target) {
			a.bucket.set(Rate{Starts: 1, Per: time.Hour}, time.Now())
			a.bucket.take(time.Now())
			a.polls++
		}},
		HinderedLocked: {begin: func(_ *Worker, a *target) { a.locked.note(nil, since) }, since: since},
	} {
		w := New(Config{
			Targets: map[string]int{"a": 1}, Terms: map[string]Terms{"a": {Launcher: &Launcher{Mode: ModePool}}}, Logger: slog.New(slog.DiscardHandler),
		})
		test.begin(w, w.targets["a"])
		got := w.hindrance(w.targets["a"], test.away)
		if got.Kind != kind || !got.Since.Equal(test.since) || (got.Why == "") != (kind == "") {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	w := New(Config{Targets: map[string]int{"a": 1, "b": 1}, Logger: slog.New(slog.DiscardHandler)})
	refusedStart(w)
	if got := w.hindrance(w.targets["a"], false); got.Kind != HinderedLauncher || got.Since.IsZero() {
		t.Errorf("%+v", got)
	}
}

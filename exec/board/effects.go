package board

import (
	"log/slog"

	"jobd/journal"
)

// Effects is what is to follow a change of the board. The worker carries it out in the order of the
// fields.
type Effects struct {
	Notes   []Note    // are logged
	Changed []*Target // may have more room than before, or less
	Poll    []string  // targets whose rows are to be looked for
	Wake    bool      // the claim loop has something to do
	Turn    bool      // the inbox has something for a turn
	Examine Examine   // the launcher is looked at
	Empty   []*Target // are removed: they were to be as soon as they are empty

	Forget    []*Job    // the runner need not keep them any more: their ends are journalled
	Signalled []Signal  // are journalled, or can't be
	Refusals  []Refusal // clients are told that a job is not run
	Answers   []Answer  // clients are told how a job ended
	Start     []Start   // are started as soon as their rows say so; those that their claims announced do
	Renewed   []Renewal // are announced once more after a moment, see Board.Renew
}

// Note is a line for the log.
type Note struct {
	Level slog.Level
	Text  string
	Args  []any
}

// Refusal is what a client is told whose job is not run here, or not now.
type Refusal struct {
	Client Client
	Job    int64
	Why    string
	Whole  bool // Why is all that there is to be said
}

// Answer is the end of a job that a client waits for.
type Answer struct {
	Client Client
	End    journal.Event
}

// Renewal is a job whose start is put off.
type Renewal struct {
	Job   *Job
	Cause error
}

// Examine is whether the launcher is to be looked at.
type Examine uint8

// What is to follow the look.
const (
	NoLook     Examine = iota
	JustLook           // nothing: only what is wrong is noted
	LookToGoOn         // jobs are started again, where nothing wrong is seen
)

// follow gives the effects of the call under way.
func (b *Board) follow() Effects {
	e := b.effects
	for _, t := range e.Changed {
		t.changed = false
	}
	b.effects = Effects{}
	return e
}

// note logs something about a job.
func (b *Board) note(level slog.Level, text string, j *Job, args ...any) {
	args = append([]any{"job", j.id, "target", j.target.name}, args...)
	b.effects.Notes = append(b.effects.Notes, Note{level, text, args})
}

// refuse tells the job's client, if there is one, that it is not run.
func (b *Board) refuse(j *Job, why string) {
	if j.client != nil {
		b.effects.Refusals = append(b.effects.Refusals, Refusal{Client: j.client, Job: j.id, Why: why})
	}
}

// examine has the launcher looked at.
func (b *Board) examine(how Examine) { b.effects.Examine = max(b.effects.Examine, how) }

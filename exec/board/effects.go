package board

import (
	"errors"
	"log/slog"
	"time"

	"jobd/journal"
)

// Effects is what follows a change of the board. The worker carries it out in the order of the
// fields.
type Effects struct {
	Notes  []Note     // are logged
	Poll   []string   // targets whose rows the worker looks for
	Free   []string   // targets of rows that were set back: all who serve them are told
	Coming []Coming   // rows that come back, and when
	Wake   bool       // the claim loop has something to do
	Turn   bool       // the inbox has something for a turn
	Look   []*Starter // their launchers are looked at

	Held      []Held    // may do their work, or are not to
	Forget    []*Job    // the runner need not keep them any more: their ends are journalled
	Signalled []Signal  // are journalled, or can't be
	Cancelled []Cancel  // likewise
	Told      []Told    // clients hear what has become of their jobs or rows
	Start     []Start   // are started as soon as their rows say so; rows that a claim announced say so already
	Renewed   []Renewal // are announced once more after a moment, see Board.Renew
}

// Held is a process that has not begun its work.
type Held struct {
	Process Process
	Go      bool // it is journalled, so the start may go on; else it ends
}

// Coming is when a row of a target is due, by the clock of the table's server.
type Coming struct {
	Target string
	At     int64  // seconds since 1970
	Seq    uint64 // the event that says so
}

// Note is a line for the log.
type Note struct {
	Level slog.Level
	Text  string
	Args  []any
}

// Told is what a client is told: how its job ended, why it is not run or its row not set back, or else that
// its row was set back.
type Told struct {
	Client Client         // nil: nobody waits
	End    *journal.Event // nil: none
	Why    string
}

// Renewal is a job whose start is put off.
type Renewal struct {
	Job   *Job
	Cause error         // nil: nothing was wrong
	After time.Duration // how long to wait; 0: by Job.Retry, which logs Cause, too
}

// Fate is what became of a start.
type Fate uint8

// The fates.
const (
	Over       Fate = iota // it has run, and Done is how it ended
	Unknown                // its outcome is unknown, or whether it was started
	NotAsked               // the runner is another one than was announced: it was not started
	NotStarted             // the system refused to start it
	Impossible             // it was not started, and can't be
)

// Outcome is how a start ended, as the runner tells.
type Outcome struct {
	Fate Fate
	// Done: where it is over; of one of unknown outcome only how long it ran, and what is left of its
	// output.
	Done  journal.Done
	Cause error // of any other fate
	Short bool  // what was missing to start it comes back by itself
}

// Signal is a signal that a job's process gets once that is journalled.
type Signal struct {
	Job   *Job
	Event journal.Signal
	To    chan<- error // the caller's; the board only hands it back, with Err
	Err   error        // why it could not be journalled
}

// ErrGone says that a process is gone.
var ErrGone = errors.New("the process is gone")

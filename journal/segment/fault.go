package segment

import "jobd/journal"

// Fault is something that is wrong: with events, with a file, or with both.
type Fault struct {
	First   uint64 // of the events concerned; 0 where it is about a file only, or no event can be named
	Last    uint64 // the last of them; 0 where it is only near First, and no event is affected
	Missing bool   // they are not there
	File    string // its name in the folder, where the fault is the file's
	Detail  string
	Err     error // the cause, where another error tells

	Surplus          bool         // a record that does not belong there
	Linked           bool         // the chain goes on through it: its bytes are what was hashed
	Stored, Computed journal.Hash // of a record: what it has as its hash, and what it should have
}

// Damage is the fault as an error.
func (f *Fault) Damage() *journal.DamagedError {
	return &journal.DamagedError{Seq: f.First, Last: f.Last, Detail: f.Detail, Err: f.Err}
}

// Text is what the fault says, without naming events.
func (f *Fault) Text() string {
	switch {
	case f.Err == nil:
		return f.Detail
	case f.Detail == "":
		return f.Err.Error()
	}
	return f.Detail + ": " + f.Err.Error()
}

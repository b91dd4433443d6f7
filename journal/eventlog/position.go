package eventlog

import (
	"fmt"

	"jobd/journal"
	"jobd/journal/segment"
)

// Position is the newest event that the jobs table is known to show.
func (j *Log) Position() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.notes.Position
}

// SetPosition notes that the jobs table shows everything up to seq, which was appended. It is
// written with a commit ten times a second, and by Rest and Close: after a crash some events are
// mirrored once more, which is harmless.
func (j *Log) SetPosition(seq uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if seq = min(seq, j.state.Seq); seq <= j.notes.Position {
		return
	}
	j.notes.Position = seq
	j.recent.drop(seq)
	if j.awaited > 0 && seq >= j.awaited {
		j.awaited = 0
		j.wakeRun()
	}
}

// maxLog is how large the write-ahead log may stay when the worker rests. SQLite uses
// it over and over from about 4 MiB on; it grows further behind a long reader or large output.
const maxLog = 16 << 20

// Rest writes what was only noted and empties a write-ahead log that has grown
// large. It is for a moment when nothing else is to be done. Its errors are Append's.
func (j *Log) Rest() error {
	if err := j.note(); err != nil {
		return err
	}
	return j.checkpoint(maxLog)
}

// note writes the notes where they are not written yet.
func (j *Log) note() error {
	j.mu.Lock()
	noted := j.notes != j.stored
	j.mu.Unlock()
	if !noted {
		return nil
	}
	_, err := j.Append()
	return err
}

// checkpoint empties a write-ahead log larger than bound.
func (j *Log) checkpoint(bound int64) error {
	j.tended.Lock()
	defer j.tended.Unlock()
	j.mu.Lock()
	newest := j.disk
	j.mu.Unlock()
	err := newest.Checkpoint(bound)
	if err == nil {
		return nil
	}
	if segment.Full(err) {
		return fmt.Errorf("checkpoint journal: %w: %w", journal.ErrFull, err)
	}
	err = fmt.Errorf("checkpoint journal: %w", segment.Damaged(err))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fail(err)
	return err
}

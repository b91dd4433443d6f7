package eventlog

import (
	"errors"

	"jobd/journal/archive"
)

// faultyDisk counts the commits, and fails or waits where it is told to.
type faultyDisk struct {
	disk
	before  func([]archive.Record) error // called before each commit
	after   func() error                 // called after each commit that succeeded
	folding error                        // of each checkpoint
	commits int

	beginning error // of beginning the next segment
	begunWith error // told although the next segment was begun
	begun     int   // how often the next segment was to begin
}

func (d *faultyDisk) next(h archive.Header, n archive.Notes) (disk, error) {
	d.begun++
	if d.beginning != nil {
		return nil, d.beginning
	}
	next, err := d.disk.next(h, n)
	if err == nil && d.begunWith != nil {
		return nil, errors.Join(d.begunWith, next.Close())
	}
	return next, err
}

func (d *faultyDisk) Checkpoint(bound int64) error {
	if d.folding != nil {
		return d.folding
	}
	return d.disk.Checkpoint(bound)
}

func (d *faultyDisk) Append(records []archive.Record, n *archive.Notes) error {
	if d.before != nil {
		if err := d.before(records); err != nil {
			return err
		}
	}
	d.commits++
	if err := d.disk.Append(records, n); err != nil || d.after == nil {
		return err
	}
	return d.after()
}

func makeFaulty(j *Log) *faultyDisk {
	d := &faultyDisk{disk: j.disk}
	j.disk = d
	return d
}

package eventlog

import (
	"errors"
	"time"

	"jobd/journal/segment"
)

// rollRetry is how long a roll-over that found no room is put off.
const rollRetry = time.Minute

// rollOver begins a new segment. Only the leader calls it, between two
// commits. Where there is no room the journal goes on in the old segment.
func (j *Log) rollOver(now instant, n segment.Notes) error {
	h, err := segment.NewHeader(j.newest.Number+1, &j.state)
	if err != nil {
		return err
	}
	next, err := j.disk.next(h, n)
	if segment.Full(err) {
		j.retryRoll = now.real.Add(rollRetry)
		j.config.Logger.Warn("no room for a new segment of the journal; going on in the old one", "segment", j.newest.Number)
		return nil
	}
	if err != nil {
		return err
	}
	j.retryRoll = time.Time{}
	j.mu.Lock()
	j.ages.end(j.newest.Number, j.state.Time, j.ages.last)
	j.newest = h
	j.former, j.disk, j.stored = append(j.former, j.disk), next, n
	j.mu.Unlock()
	j.wakeRun()
	return nil
}

// due reports whether a new segment is to begin: the newest has events, and is large or old enough.
// Its age goes by what really passed: a clock that was set back does not keep it.
func (j *Log) due(now time.Time) bool {
	if j.state.Seq < j.newest.First || now.Before(j.retryRoll) {
		return false
	}
	return j.disk.Size() >= j.config.SegmentSize || now.Sub(j.ages.begun) >= j.config.SegmentAge
}

// closeFormer closes segments that were rolled over, which empties their write-ahead logs. tended
// is held.
func (j *Log) closeFormer() error {
	j.mu.Lock()
	former := j.former
	j.former = nil
	j.mu.Unlock()
	var errs []error
	for _, d := range former {
		errs = append(errs, d.Checkpoint(0), d.Close())
	}
	return errors.Join(errs...)
}

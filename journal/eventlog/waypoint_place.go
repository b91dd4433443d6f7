package eventlog

import (
	"context"
	"maps"

	"jobd/journal/verify"
)

// placeWaypoints writes a waypoint whenever enough was appended, until ctx ends or the journal is
// closed. One that cannot be written is missed by the next start only, which takes longer.
func (j *Log) placeWaypoints(ctx context.Context) {
	for {
		select {
		case <-j.recent.heavy:
		case <-ctx.Done():
			return
		case <-j.life.Done():
			return
		}
		if err := j.placeWaypoint(); err != nil {
			j.config.Logger.Warn("the next start will take longer", "error", err)
		}
	}
}

// placeWaypoint writes a waypoint for all that was appended. Appends go on meanwhile.
func (j *Log) placeWaypoint() error {
	j.mu.Lock()
	state := j.state
	state.Jobs, state.Targets = maps.Clone(state.Jobs), maps.Clone(state.Targets) // jobs in it are replaced, never changed
	h := j.newest
	j.recent.since = 0
	j.mu.Unlock()
	if state.Seq < h.First {
		return nil // a new segment has begun: its checkpoint does it
	}
	return verify.WriteWaypoint(j.config.Dir, h, &state)
}

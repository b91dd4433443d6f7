package journal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
)

// The waypoint file holds the state after an event of the newest segment, so that a start verifies and folds
// what comes after it only, however full the segment is. It is a cache: without it, or where it does not fit, a
// start takes the whole segment. That it says what the events before it say is checked by Verify, and, since
// the state that goes on from it ends up in the next segment's checkpoint, by sealing.
const waypointFile = "waypoint"

// waypointWeight is how heavy events (see weight) become before the next waypoint: some
// 65,000 small ones, or 32 MiB of output, are verified within a fraction of a second.
const waypointWeight = 32 << 20

// waypoint is the state after an event.
type waypoint struct {
	Segment int             `json:"segment"`
	Opening string          `json:"opening"` // hash of the segment's header, so that it is of this segment and no other
	Event   string          `json:"event"`   // an Anchor
	State   json.RawMessage `json:"state"`   // see encodeCheckpoint

	anchor Anchor // Event, once it is read
}

// newWaypoint is the waypoint of a state in the segment of a header.
func newWaypoint(h header, s *State) (waypoint, error) {
	checkpoint, err := encodeCheckpoint(s)
	return waypoint{
		Segment: h.number, Opening: h.opening().String(), Event: Anchor{s.Seq, s.Hash}.String(), State: checkpoint,
	}, err
}

const waypointFormat = "jobd-waypoint %s\n" // the SHA-256 of all that follows

// writeWaypoint replaces the file. Its events are durable before; whatever a crash leaves is the file as it was, or the new one.
func writeWaypoint(dir string, w waypoint) error {
	content, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("write journal waypoint: %w", err)
	}
	path := filepath.Join(dir, waypointFile)
	partial := path + partialEnd
	err = writeSynced(partial, append(fmt.Appendf(nil, waypointFormat, Hash(sha256.Sum256(content))), content...))
	if err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write journal waypoint: %w", err), removeIfThere(partial))
	}
	return nil
}

func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readWaypoint reads the file; nil where there is none.
func readWaypoint(dir string) (*waypoint, error) {
	data, err := os.ReadFile(filepath.Join(dir, waypointFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read journal waypoint: %w", err)
	}
	first, content, _ := bytes.Cut(data, []byte("\n"))
	w := &waypoint{}
	if string(first)+"\n" != fmt.Sprintf(waypointFormat, Hash(sha256.Sum256(content))) {
		err = errors.New("its sum does not match")
	} else if err = json.Unmarshal(content, w); err == nil {
		w.anchor, err = ParseAnchor(w.Event)
	}
	if err != nil {
		return nil, &DamagedError{Detail: "the waypoint file is not readable", Err: err}
	}
	return w, nil
}

// fits gives the state after the waypoint's event; nil where it is not of this segment, or its event is not there.
func (w *waypoint) fits(ctx context.Context, s source, h header) (*State, error) {
	if w.Segment != h.number || w.Opening != h.opening().String() || w.anchor.Seq < h.first {
		return nil, nil
	}
	r, err := recordAt(ctx, s, w.anchor.Seq)
	if err != nil || r == nil || r.hash != w.anchor.Hash {
		return nil, err
	}
	state, err := decodeCheckpoint(w.State)
	if err != nil {
		return nil, err
	}
	state.Seq, state.Hash = w.anchor.Seq, w.anchor.Hash
	return state, nil
}

// recordAt is one event's record without output, unchecked; nil where it is not there.
func recordAt(ctx context.Context, s source, seq uint64) (*record, error) {
	for page, err := range s.records(ctx, selection{after: seq - 1, end: seq + 1}) {
		if err != nil {
			return nil, err
		}
		return &page[0], nil
	}
	return nil, nil
}

// agrees compares the waypoint with its event's hash, and with the state after it where that is known.
func (w *waypoint) agrees(hash Hash, s *State) error {
	differs := w.anchor.Hash != hash
	if s != nil && !differs {
		checkpoint, err := encodeCheckpoint(s)
		if err != nil {
			return err
		}
		differs = !bytes.Equal(w.State, checkpoint)
	}
	if differs {
		return &DamagedError{Seq: w.anchor.Seq, Detail: "the waypoint file disagrees with the events up to here"}
	}
	return nil
}

// placeWaypoints writes a waypoint whenever enough was appended, until ctx ends or the journal is closed.
// One that cannot be written is missed by the next start only, which takes longer.
func (j *Journal) placeWaypoints(ctx context.Context) {
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
func (j *Journal) placeWaypoint() error {
	j.mu.Lock()
	state := j.state
	state.Jobs, state.Targets = maps.Clone(state.Jobs), maps.Clone(state.Targets) // jobs in it are replaced, never changed
	h := j.newest
	j.recent.since = 0
	j.mu.Unlock()
	if state.Seq < h.first {
		return nil // a new segment has begun: its checkpoint does it
	}
	w, err := newWaypoint(h, &state)
	if err != nil {
		return err
	}
	return writeWaypoint(j.config.Dir, w)
}

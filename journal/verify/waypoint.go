package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"jobd/journal"
	"jobd/journal/folder"
	"jobd/journal/segment"
)

// A waypoint file holds the state after an event of the newest segment, so that a start verifies
// and folds what comes after it only, however full the segment is. It is a cache: without it, or
// where it does not fit, a start takes the whole segment. That it says what the events before it
// say is checked by Verify, and, since the state that goes on from it ends up in the next segment's
// checkpoint, by sealing. waypointWeight is how heavy events (see weight) become before the next
// waypoint: some 65,000 small ones, or 32 MiB of output, are verified within a fraction of a
// second.
const WaypointWeight = 32 << 20

// waypoint is the state after an event.
type waypoint struct {
	Segment int             `json:"segment"`
	Opening string          `json:"opening"` // hash of the segment's header, so that it is of this segment and no other
	Event   string          `json:"event"`   // an Anchor
	State   json.RawMessage `json:"state"`   // see encodeCheckpoint

	anchor journal.Anchor // Event, once it is read
}

// newWaypoint is the waypoint of a state in the segment of a header.
func newWaypoint(h segment.Header, s *journal.State) (waypoint, error) {
	checkpoint, err := journal.EncodeCheckpoint(s)
	return waypoint{
		Segment: h.Number, Opening: h.Opening().String(), Event: journal.Anchor{Seq: s.Seq, Hash: s.Hash}.String(), State: checkpoint,
	}, err
}

const waypointFormat = "jobd-waypoint %s\n" // the SHA-256 of all that follows

// WriteWaypoint replaces the file by one of a state in the segment of a header. Its events are
// durable before; whatever a crash leaves is the file as it was, or the new one.
func WriteWaypoint(dir string, h segment.Header, state *journal.State) error {
	w, err := newWaypoint(h, state)
	if err != nil {
		return err
	}
	content, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("write journal waypoint: %w", err)
	}
	path := filepath.Join(dir, folder.WaypointFile)
	partial := path + folder.PartialEnd
	err = segment.WriteSynced(partial, append(fmt.Appendf(nil, waypointFormat, journal.Hash(sha256.Sum256(content))), content...))
	if err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write journal waypoint: %w", err), segment.RemoveIfThere(partial))
	}
	return nil
}

// readWaypoint reads the file; nil where there is none.
func readWaypoint(dir string) (*waypoint, error) {
	data, err := os.ReadFile(filepath.Join(dir, folder.WaypointFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read journal waypoint: %w", err)
	}
	first, content, _ := bytes.Cut(data, []byte("\n"))
	w := &waypoint{}
	if string(first)+"\n" != fmt.Sprintf(waypointFormat, journal.Hash(sha256.Sum256(content))) {
		err = errors.New("its sum does not match")
	} else if err = json.Unmarshal(content, w); err == nil {
		w.anchor, err = journal.ParseAnchor(w.Event)
	}
	if err != nil {
		return nil, &journal.DamagedError{Detail: "the waypoint file is not readable", Err: err}
	}
	return w, nil
}

// fits gives the state after the waypoint's event; nil where it is not of this segment, or its
// event is not there.
func (w *waypoint) fits(ctx context.Context, s segment.Source, h segment.Header) (*journal.State, error) {
	if w.Segment != h.Number || w.Opening != h.Opening().String() || w.anchor.Seq < h.First {
		return nil, nil
	}
	r, err := segment.RecordAt(ctx, s, w.anchor.Seq)
	if err != nil || r == nil || r.Hash != w.anchor.Hash {
		return nil, err
	}
	state, err := journal.DecodeCheckpoint(w.State)
	if err != nil {
		return nil, err
	}
	state.Seq, state.Hash = w.anchor.Seq, w.anchor.Hash
	return state, nil
}

// agrees compares the waypoint with its event's hash, and with the state after it where that is
// known.
func (w *waypoint) agrees(hash journal.Hash, s *journal.State) error {
	differs := w.anchor.Hash != hash
	if s != nil && !differs {
		checkpoint, err := journal.EncodeCheckpoint(s)
		if err != nil {
			return err
		}
		differs = !bytes.Equal(w.State, checkpoint)
	}
	if differs {
		return &journal.DamagedError{Seq: w.anchor.Seq, Detail: "the waypoint file disagrees with the events up to here"}
	}
	return nil
}

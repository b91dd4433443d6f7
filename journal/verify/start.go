package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
)

// Segment verifies one segment by itself, as whoever seals it does, and that the next one follows it.
func Segment(ctx context.Context, f *archive.Folder, s archive.Source, h, next archive.Header) error {
	v := newVerifier(f, against{})
	err := v.segment(ctx, s, h)
	if err == nil {
		err = v.beginSegment(next)
	}
	if err == nil {
		err = v.problem()
	}
	return err
}

// Start is what a worker goes on from.
type Start struct {
	Header archive.Header // of the newest segment
	State  *journal.State // after its newest event
	Notes  archive.Notes  // what it keeps beside the events
	Begun  time.Time      // of its first event; zero: there is none
	Weight int            // of the events behind its waypoint
	Unfit  bool           // there is a waypoint that could not be gone on from
}

// Newest verifies what a worker relies on, see runNewest, and gives what it goes on from. What is
// odd, and no damage, goes to the log.
func Newest(ctx context.Context, f *archive.Folder, parts []archive.Part, log *slog.Logger) (Start, error) {
	v := newVerifier(f, against{})
	if err := v.runNewest(ctx, parts, log); err != nil {
		return Start{}, err
	}
	return Start{v.header, v.state, v.notes, v.begun, v.weight, v.unfit}, nil
}

// runNewest verifies all that a worker relies on: the newest segment, from its waypoint on where
// there is one, that it follows the one before it, head file and position. The time it takes is
// bounded by the distance of waypoints.
func (v *verifier) runNewest(ctx context.Context, parts []archive.Part, log *slog.Logger) (err error) {
	if v.head, err = archive.ReadHead(v.folder.Dir); err != nil {
		return err
	}
	if v.notes, v.live, err = v.folder.Notes(ctx); err != nil {
		return err
	}
	newest := parts[len(parts)-1]
	s, err := v.folder.Open(newest)
	if err != nil {
		return err
	}
	defer s.Close()
	h, err := s.Header(ctx)
	if err != nil {
		return err
	}
	if h.Number != newest.Number {
		return &journal.DamagedError{Seq: h.First, Detail: fmt.Sprintf("file %s holds segment %d", newest.Path, h.Number)}
	}
	if err := v.checkBefore(ctx, parts, h); err != nil {
		return err
	}
	if v.head.Found {
		v.expected = []expected{{journal.Anchor{Seq: v.head.Seq, Hash: v.head.Hash}, true}}
	}
	if err := v.newestEvents(ctx, s, h, log); err != nil {
		return err
	}
	v.atEnd()
	return v.problem()
}

// newestEvents verifies the newest segment's events from its waypoint on; all, where there is none
// that fits.
func (v *verifier) newestEvents(ctx context.Context, s archive.Source, h archive.Header, log *slog.Logger) error {
	w, err := readWaypoint(v.folder.Dir)
	if w == nil && err == nil || w != nil && w.Segment < h.Number {
		return v.events(ctx, s, h)
	}
	var state *journal.State
	if err == nil {
		state, err = w.fits(ctx, s, h)
	}
	if state != nil {
		return v.eventsFrom(ctx, s, h, state)
	}
	log.Warn("the journal's waypoint file does not fit; verifying all of the newest segment", "error", err)
	v.unfit = true
	return v.events(ctx, s, h)
}

// eventsFrom verifies the events behind a state, which is a waypoint's.
func (v *verifier) eventsFrom(ctx context.Context, s archive.Source, h archive.Header, state *journal.State) error {
	opening, err := archive.RecordAt(ctx, s, h.First)
	if err != nil {
		return err
	}
	if opening == nil {
		return &journal.DamagedError{Seq: h.First, Detail: "it is missing"}
	}
	if err := v.beginSegment(h); err != nil {
		return err
	}
	v.begun, v.state = opening.Time(), state
	v.links.next, v.last = state.Seq+1, state.Hash
	v.compare(journal.Anchor{Seq: state.Seq, Hash: state.Hash})
	return v.addPages(archive.Verified(ctx, s, archive.Selection{After: state.Seq}, archive.From{After: state.Seq, Previous: state.Hash}))
}

// checkBefore lets the newest segment follow the end of the segment before it, where that is kept.
func (v *verifier) checkBefore(ctx context.Context, parts []archive.Part, h archive.Header) error {
	if len(parts) < 2 || parts[len(parts)-2].Number != h.Number-1 {
		return nil
	}
	return v.folder.Visit(ctx, parts[len(parts)-2], 0, func(p archive.Part, s archive.Source, _ archive.Header) error {
		seq, hash, err := s.End(ctx)
		v.number, v.links.next, v.last, v.state = p.Number, seq+1, hash, nil
		return err
	})
}

// firstState is what a journal begins with. Older versions did not journal what retention removes.
func firstState(h archive.Header) *journal.State {
	if state, err := h.State(); err == nil && state.Removed != nil && *state.Removed == (journal.Removal{}) {
		return &journal.State{Removed: state.Removed}
	}
	return &journal.State{}
}

// Sound verifies what a worker's start would: the newest segment, that it follows the one before
// it, head file and position. It changes nothing, and may be asked while a worker has the journal.
// The time it takes is bounded by the distance of waypoints. A folder without a journal is sound.
func Sound(ctx context.Context, f *archive.Folder) error {
	parts, err := f.Segments(ctx)
	if err == nil && len(parts) > 0 {
		if newest := parts[len(parts)-1]; newest.Sealed {
			err = &journal.DamagedError{Detail: archive.DetailAllSealed}
		} else {
			err = newVerifier(f, against{}).runNewest(ctx, parts, slog.New(slog.DiscardHandler))
		}
	}
	if err != nil {
		return f.Failed("verify", err)
	}
	return nil
}

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
func newWaypoint(h archive.Header, s *journal.State) (waypoint, error) {
	checkpoint, err := journal.EncodeCheckpoint(s)
	return waypoint{
		Segment: h.Number, Opening: h.Opening().String(), Event: journal.Anchor{Seq: s.Seq, Hash: s.Hash}.String(), State: checkpoint,
	}, err
}

const waypointFormat = "jobd-waypoint %s\n" // the SHA-256 of all that follows

// WriteWaypoint replaces the file by one of a state in the segment of a header. Its events are
// durable before; whatever a crash leaves is the file as it was, or the new one.
func WriteWaypoint(dir string, h archive.Header, state *journal.State) error {
	w, err := newWaypoint(h, state)
	if err != nil {
		return err
	}
	content, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("write journal waypoint: %w", err)
	}
	content = append(fmt.Appendf(nil, waypointFormat, journal.Hash(sha256.Sum256(content))), content...)
	if err := archive.Replace(filepath.Join(dir, archive.WaypointFile), content); err != nil {
		return fmt.Errorf("write journal waypoint: %w", err)
	}
	return nil
}

// readWaypoint reads the file; nil where there is none.
func readWaypoint(dir string) (*waypoint, error) {
	data, err := os.ReadFile(filepath.Join(dir, archive.WaypointFile))
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
func (w *waypoint) fits(ctx context.Context, s archive.Source, h archive.Header) (*journal.State, error) {
	if w.Segment != h.Number || w.Opening != h.Opening().String() || w.anchor.Seq < h.First {
		return nil, nil
	}
	r, err := archive.RecordAt(ctx, s, w.anchor.Seq)
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

package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// header is what a segment opens with. Its hash is the link between the last event of the
// segment before and its own first event.
type header struct {
	number     int    // 1, 2, 3, …
	first      uint64 // the sequence number of its first event, whether or not there is one yet
	previous   Hash   // of the event before the first; zero where there is none
	checkpoint []byte // the state before the first event, see encodeCheckpoint
}

// opening is the hash that the segment's first event covers as the one before it: SHA-256 over the header's bytes.
func (h header) opening() Hash { return sha256.Sum256(h.bytes()) }

const headerFixed = 8 + 8 + len(Hash{})

// bytes is number and first (eight bytes each, big endian), the previous hash and the checkpoint.
func (h header) bytes() []byte {
	b := make([]byte, 0, headerFixed+len(h.checkpoint))
	b = binary.BigEndian.AppendUint64(b, uint64(h.number))
	b = binary.BigEndian.AppendUint64(b, h.first)
	b = append(b, h.previous[:]...)
	return append(b, h.checkpoint...)
}

// parseHeader is the reverse of bytes.
func parseHeader(b []byte) (header, error) {
	if len(b) < headerFixed {
		return header{}, &DamagedError{Detail: "a segment's header is too short"}
	}
	h := header{
		number: int(binary.BigEndian.Uint64(b)), first: binary.BigEndian.Uint64(b[8:]),
		checkpoint: b[headerFixed:],
	}
	copy(h.previous[:], b[16:])
	return h, nil
}

// link is the hash that the event after seq covers, where hash is that of seq itself.
func (h header) link(seq uint64, hash Hash) Hash {
	if seq+1 == h.first {
		return h.opening()
	}
	return hash
}

// state is what held before the segment's first event.
func (h header) state() (*State, error) {
	s, err := decodeCheckpoint(h.checkpoint)
	if err != nil {
		return nil, &DamagedError{Seq: h.first, Detail: fmt.Sprintf("the checkpoint of segment %d is not readable", h.number), Err: err}
	}
	s.Seq, s.Hash = h.first-1, h.previous
	return s, nil
}

// newHeader is the header of the segment that follows a state.
func newHeader(number int, s *State) (header, error) {
	checkpoint, err := encodeCheckpoint(s)
	if err != nil {
		return header{}, err
	}
	return header{number: number, first: s.Seq + 1, previous: s.Hash, checkpoint: checkpoint}, nil
}

// checkpoint is the JSON form of a state. It is canonical: equal states give equal bytes.
type checkpoint struct {
	Time    int64             `json:"time,omitempty"` // microseconds since 1970; so are all times here
	Name    string            `json:"name,omitempty"`
	Open    bool              `json:"open,omitempty"`
	Mark    string            `json:"mark,omitempty"`
	Server  string            `json:"server,omitempty"`
	Targets map[string]Target `json:"targets,omitempty"`
	Jobs    []checkpointJob   `json:"jobs,omitempty"`    // those not at their end, by id
	Removed *Removal          `json:"removed,omitempty"` // {} in journals that nothing was removed from; older versions have none
}

// checkpointJob is a job under way; what only a job at its end has is not there.
type checkpointJob struct {
	ID       int64    `json:"id"`
	Target   string   `json:"target"`
	Manual   bool     `json:"manual,omitempty"`
	Token    string   `json:"token"`
	Status   Status   `json:"status"`
	Attempt  int      `json:"attempt,omitempty"`
	Runner   string   `json:"runner,omitempty"`
	Claimed  bool     `json:"claimed,omitempty"`
	Process  *Started `json:"process,omitempty"`
	Lost     bool     `json:"lost,omitempty"`
	Accepted int64    `json:"accepted,omitempty"`
	Running  int64    `json:"running,omitempty"`
}

func encodeCheckpoint(s *State) ([]byte, error) {
	c := checkpoint{Time: micros(s.Time), Name: s.Name, Open: s.Open, Mark: s.Mark, Server: s.Server, Targets: s.Targets, Removed: s.Removed}
	for _, id := range slices.Sorted(maps.Keys(s.Jobs)) {
		j := s.Jobs[id]
		if j.Status.Ended() {
			continue
		}
		c.Jobs = append(c.Jobs, checkpointJob{
			ID: j.ID, Target: j.Target, Manual: j.Manual, Token: j.Token, Status: j.Status, Attempt: j.Attempt,
			Runner: j.Runner, Claimed: j.Claimed, Process: j.Process, Lost: j.Lost, Accepted: micros(j.Accepted), Running: micros(j.Running),
		})
	}
	return json.Marshal(c)
}

func decodeCheckpoint(data []byte) (*State, error) {
	var c checkpoint
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	s := &State{Time: moment(c.Time), Name: c.Name, Open: c.Open, Mark: c.Mark, Server: c.Server, Targets: c.Targets, Removed: c.Removed}
	if len(c.Jobs) > 0 {
		s.Jobs = make(map[int64]*Job, len(c.Jobs))
	}
	for _, j := range c.Jobs {
		if j.Status.Ended() {
			return nil, fmt.Errorf("job %d is %q, not under way", j.ID, j.Status)
		}
		s.Jobs[j.ID] = &Job{
			ID: j.ID, Target: j.Target, Manual: j.Manual, Token: j.Token, Status: j.Status, Attempt: j.Attempt,
			Runner: j.Runner, Claimed: j.Claimed, Process: j.Process, Lost: j.Lost, Accepted: moment(j.Accepted), Running: moment(j.Running),
		}
	}
	return s, nil
}

// micros is a time in microseconds since 1970; 0 stands for no time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment is the reverse of micros.
func moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

package journal

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// checkpoint is the JSON form of a state. It is canonical: equal states give equal bytes.
type checkpoint struct {
	Time    Moment            `json:"time,omitzero"`
	Name    string            `json:"name,omitempty"`
	Open    bool              `json:"open,omitempty"`
	Mark    string            `json:"mark,omitempty"`
	Server  string            `json:"server,omitempty"`
	Targets map[string]Target `json:"targets,omitempty"`
	Jobs    []Job             `json:"jobs,omitempty"` // those not at their end, by id
	// Removed: {} in journals that nothing was removed from; older versions have none.
	Removed *Removal `json:"removed,omitempty"`
}

func EncodeCheckpoint(s *State) ([]byte, error) {
	c := checkpoint{
		Time: Moment{s.Time}, Name: s.Name, Open: s.Open, Mark: s.Mark, Server: s.Server,
		Targets: s.Targets, Removed: s.Removed,
	}
	for _, id := range slices.Sorted(maps.Keys(s.Jobs)) {
		if job := s.Jobs[id]; !job.Status.Ended() {
			c.Jobs = append(c.Jobs, *job)
		}
	}
	return json.Marshal(c)
}

func DecodeCheckpoint(data []byte) (*State, error) {
	var c checkpoint
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	s := &State{
		Time: c.Time.Time, Name: c.Name, Open: c.Open, Mark: c.Mark, Server: c.Server,
		Targets: c.Targets, Removed: c.Removed,
	}
	if len(c.Jobs) > 0 {
		s.Jobs = make(map[int64]*Job, len(c.Jobs))
	}
	for _, job := range c.Jobs {
		if job.Status.Ended() {
			return nil, fmt.Errorf("job %d is %q, not under way", job.ID, job.Status)
		}
		s.Jobs[job.ID] = &job
	}
	return s, nil
}

// Moment is a time whose JSON form is a number: microseconds since 1970, 0 for no time.
type Moment struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (m Moment) MarshalJSON() ([]byte, error) {
	if m.IsZero() {
		return []byte("0"), nil
	}
	return json.Marshal(m.UnixMicro())
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Moment) UnmarshalJSON(data []byte) error {
	var micros int64
	err := json.Unmarshal(data, &micros)
	m.Time = moment(micros)
	return err
}

// moment is a time in microseconds since 1970; 0 stands for no time.
func moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

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
	Time    int64             `json:"time,omitempty"` // microseconds since 1970; so are all times here
	Name    string            `json:"name,omitempty"`
	Open    bool              `json:"open,omitempty"`
	Mark    string            `json:"mark,omitempty"`
	Server  string            `json:"server,omitempty"`
	Targets map[string]Target `json:"targets,omitempty"`
	Jobs    []checkpointJob   `json:"jobs,omitempty"` // those not at their end, by id
	// Removed: {} in journals that nothing was removed from; older versions have none.
	Removed *Removal `json:"removed,omitempty"`
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

	Cancelled *checkpointCancel `json:"cancelled,omitempty"` // of one that runs; older versions have none

	From      string `json:"from,omitempty"` // this and all below: older versions have none
	Plan      *Plan  `json:"plan,omitempty"`
	PlannedAt int64  `json:"planned_at,omitempty"` // seconds since 1970
	Timeout   int64  `json:"timeout,omitempty"`    // seconds
	KillAfter int64  `json:"kill_after,omitempty"` // seconds
	Ends      bool   `json:"ends,omitempty"`
	Executor  string `json:"executor,omitempty"` // older versions have none
}

// checkpointCancel is the JSON form of a Cancellation.
type checkpointCancel struct {
	Time  int64  `json:"time"`
	By    string `json:"by"`
	Grace int64  `json:"grace"` // microseconds

	Schedule bool `json:"schedule,omitempty"`
}

func EncodeCheckpoint(s *State) ([]byte, error) {
	c := checkpoint{Time: micros(s.Time), Name: s.Name, Open: s.Open, Mark: s.Mark, Server: s.Server, Targets: s.Targets, Removed: s.Removed}
	for _, id := range slices.Sorted(maps.Keys(s.Jobs)) {
		j := s.Jobs[id]
		if j.Status.Ended() {
			continue
		}
		c.Jobs = append(c.Jobs, checkpointJob{
			ID: j.ID, Target: j.Target, Manual: j.Manual, Token: j.Token, Status: j.Status, Attempt: j.Attempt,
			Runner: j.Runner, Claimed: j.Claimed, Process: j.Process, Lost: j.Lost, Accepted: micros(j.Accepted), Running: micros(j.Running),
			Cancelled: j.Cancelled.checkpoint(),
			From:      j.From, Plan: j.Plan, PlannedAt: j.PlannedAt,
			Timeout: int64(j.Timeout / time.Second), KillAfter: int64(j.KillAfter / time.Second), Ends: j.Ends, Executor: j.Executor,
		})
	}
	return json.Marshal(c)
}

func DecodeCheckpoint(data []byte) (*State, error) {
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
			Cancelled: j.Cancelled.cancellation(),
			From:      j.From, Plan: j.Plan, PlannedAt: j.PlannedAt,
			Timeout: time.Duration(j.Timeout) * time.Second, KillAfter: time.Duration(j.KillAfter) * time.Second, Ends: j.Ends, Executor: j.Executor,
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

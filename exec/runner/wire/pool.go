package wire

import (
	"encoding/json"
	"log/slog"
	"time"
)

// Pool is what a worker wants to be kept ready for a target.
type Pool struct {
	Target string   `json:"target"`
	Mode   string   `json:"mode"` // fork or pool
	Argv   []string `json:"argv"`
	Dir    string   `json:"dir,omitempty"`
	Env    []string `json:"env,omitempty"`
	Slots  int      `json:"slots"`

	// Where one of these is 0 there is no such limit. Durations are nanoseconds.
	MaxJobs     int           `json:"max_jobs,omitempty"`
	MaxAge      time.Duration `json:"max_age,omitempty"`
	MaxMemory   int64         `json:"max_memory,omitempty"`
	IdleTimeout time.Duration `json:"idle_timeout,omitempty"`
	BootTimeout time.Duration `json:"boot_timeout,omitempty"`
	Watch       bool          `json:"watch,omitempty"`

	Era int `json:"era,omitempty"` // another one where the pool was removed since, and is back

	// Wish tells the last wish that its processes be replaced from others; 0: there was none. Why is
	// its reason.
	Wish int64  `json:"wish,omitempty"`
	Why  string `json:"why,omitempty"`
}

// Standing tells how a pool stands.
type Standing struct {
	Target    string           `json:"target"`
	Mode      string           `json:"mode"`
	Processes int              `json:"processes"`
	Booting   int              `json:"booting"`
	Ready     int              `json:"ready"`
	Busy      int              `json:"busy"`
	Boots     int64            `json:"boots"`
	Jobs      int64            `json:"jobs"`
	Recycled  map[string]int64 `json:"recycled,omitempty"` // processes that were replaced, by why
	Unready   string           `json:"unready,omitempty"`  // why none gets ready; "" where nothing is wrong
	Failing   string           `json:"failing,omitempty"`  // why no new one gets ready, while others work
	Since     int64            `json:"since,omitempty"`    // since when, unix milliseconds
	Era       int              `json:"era,omitempty"`      // as it was said
	Wish      *int64           `json:"wish,omitempty"`     // the last one that was taken up; nil: of an older version, which tells neither that nor Old
	Old       int              `json:"old,omitempty"`      // processes that are there since before all were to be replaced

	Tight      string `json:"tight,omitempty"`       // why max_memory is too small; "" where it is not
	TightSince int64  `json:"tight_since,omitempty"` // since when, unix milliseconds
}

// Note is something about a pool that people should know.
type Note struct {
	Level  slog.Level `json:"level"`
	Target string     `json:"target"`
	Pid    int        `json:"pid,omitempty"`
	Job    int64      `json:"job,omitempty"`
	Text   string     `json:"text"`
}

// pooled is the body of messages about pools. They are rare, and their fields grow, so they stand in
// JSON: who does not know a field passes over it.
type pooled struct {
	Wanted    []Pool     `json:"wanted,omitempty"`
	Standings []Standing `json:"standings,omitempty"`
	Notes     []Note     `json:"notes,omitempty"`
	Targets   []string   `json:"targets,omitempty"`
	Text      string     `json:"text,omitempty"`
}

// encodePools appends the fields of a message about pools.
func (m *Message) encodePools(b []byte) []byte {
	body, err := json.Marshal(pooled{m.Wanted, m.Standings, m.Notes, m.Targets, m.Text})
	if err != nil {
		panic("wire: " + err.Error()) // there is nothing in it that JSON can't say
	}
	return putBytes(b, body)
}

// pools reads the fields of a message about pools.
func (d *decoder) pools(m *Message) {
	var p pooled
	if body := d.bytes(); !d.bad && json.Unmarshal(body, &p) != nil {
		d.bad = true
	}
	m.Wanted, m.Standings, m.Notes, m.Targets, m.Text = p.Wanted, p.Standings, p.Notes, p.Targets, p.Text
}

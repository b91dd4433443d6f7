package exec

import (
	"slices"
	"time"
)

// Mode is how a launcher runs jobs.
type Mode string

// The modes, by the words of the configuration. What a job is in each of them, and what is known of
// it after a crash, is in docs/executors.md.
const (
	ModeProcess Mode = "process" // a process of its own
	ModeFork    Mode = "fork"    // a fork of a process that has loaded the application
	ModeSpare   Mode = "spare"   // in older journals: a process that was started ahead, for one job
	ModePool    Mode = "pool"    // a turn of a process that stays
	ModeHTTP    Mode = "http"    // a request to a service
	ModeFastCGI Mode = "fastcgi" // a request to a FastCGI server
)

// Kept tells whether processes are kept for jobs, by the runner.
func (m Mode) Kept() bool { return slices.Contains([]Mode{ModeFork, ModeSpare, ModePool}, m) }

// Requests tells whether a job is a request that the worker itself makes.
func (m Mode) Requests() bool { return m == ModeHTTP || m == ModeFastCGI }

// Executor is the mode as events name it: what every job was before there were modes has no name.
func (m Mode) Executor() string {
	if m == ModeProcess {
		return ""
	}
	return string(m)
}

// modeOf is the mode that events name so.
func modeOf(executor string) Mode {
	if executor == "" {
		return ModeProcess
	}
	return Mode(executor)
}

// shares tells whether a job's process was there before the job.
func (m Mode) shares() bool { return m == ModePool || m == ModeSpare }

// Keep is how processes are kept for the jobs of a target. Where something is 0 there is no such
// limit.
type Keep struct {
	MaxJobs     int           // jobs after which a process is replaced
	MaxAge      time.Duration // age at which it is
	MaxMemory   int64         // resident bytes beyond which it is
	IdleTimeout time.Duration // how long a process may be without a job before it ends
	BootTimeout time.Duration // how long it may take until it is ready
	Watch       bool          // processes are replaced when the launcher's files change
}

// Pool is what is to be kept ready for a target.
type Pool struct {
	Target string
	Mode   Mode
	Argv   []string
	Dir    string
	Env    []string
	Slots  int // jobs that may run at once, each in a process of its own
	Keep   Keep
}

// PoolStanding tells how a pool stands.
type PoolStanding struct {
	Target    string           `json:"target"`
	Mode      Mode             `json:"mode"`
	Processes int              `json:"processes"`          // there are, booting or not
	Booting   int              `json:"booting"`            // of them are not ready yet
	Ready     int              `json:"ready"`              // of them wait for a job
	Busy      int              `json:"busy"`               // of them have one
	Boots     int64            `json:"boots"`              // processes that got ready since the runner has the pool
	Jobs      int64            `json:"jobs"`               // jobs that were passed to one
	Recycled  map[string]int64 `json:"recycled,omitempty"` // processes that were replaced, by why
	Old       *int             `json:"old,omitempty"`      // processes that are still to be replaced because somebody asked for it, or for another reason that is about all; nil: the runner can't tell
	Unready   string           `json:"unready,omitempty"`  // why none gets ready; "" where nothing is wrong
	Failing   string           `json:"failing,omitempty"`  // why no new one gets ready, while others work
	Since     int64            `json:"since,omitempty"`    // since when, unix milliseconds

	// Tight is why max_memory is too small, so that each process is replaced after its first job; ""
	// where it is not. TightSince is since when, unix milliseconds.
	Tight      string `json:"tight,omitempty"`
	TightSince int64  `json:"tightSince,omitempty"`
}

// Service is what a job's request is sent to.
type Service struct {
	Mode    Mode
	URL     string        // of http: where to post; {id} in it stands for the job's id
	Address string        // of fastcgi: the server's, a path of a unix socket or host:port
	Script  string        // of fastcgi: the file that it is to run
	Secret  string        // of http: signs requests; "": they are not signed
	Dial    time.Duration // how long a connection may take
}

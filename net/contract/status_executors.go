package contract

// ExecutorStatus is how that stands which runs the jobs of a target otherwise than in a process for
// each.
type ExecutorStatus struct {
	Target string `json:"target"`
	Mode   string `json:"mode"`              // fork, pool, http or fastcgi
	Slots  int    `json:"slots"`             // jobs that may run at once
	Sent   string `json:"address,omitempty"` // of http and fastcgi: where requests are sent

	// Of processes that are kept: how many there are, of which some are booting, and some have no job.
	Processes int `json:"processes"`
	Booting   int `json:"booting"`
	Ready     int `json:"ready"`
	Busy      int `json:"busy"` // have a job; of http and fastcgi: requests under way

	// Since the runner has them, or the worker was started.
	Boots    int64            `json:"boots"`              // processes that got ready; connections that were made
	Jobs     int64            `json:"jobs"`               // that were passed to one
	Recycled map[string]int64 `json:"recycled,omitempty"` // processes that were replaced, by why

	Old *int `json:"old,omitempty"` // kept processes that are still to be replaced by recycle; nil: an older version, or no processes are kept

	Unready string `json:"unready,omitempty"` // why no job can be started; "" where nothing is wrong
	Failing string `json:"failing,omitempty"` // why no new process gets ready, while others work
	Since   int64  `json:"since,omitempty"`   // since when, unix milliseconds

	// Tight is why max_memory is too small, so that each process is replaced after its first job; ""
	// where it is not. TightSince is since when, unix milliseconds.
	Tight      string `json:"tight,omitempty"`
	TightSince int64  `json:"tightSince,omitempty"`
}

// Kept tells whether processes are kept for jobs, rather than requests sent.
func (e *ExecutorStatus) Kept() bool { return e.Sent == "" }

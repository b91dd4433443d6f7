package journal

import "time"

// Filter selects events. The zero value selects all.
type Filter struct {
	After  uint64    // only events behind this sequence number; where the next is not kept, a *RemovedError
	Job    int64     // only events of this job
	Kinds  []Kind    // only events of these kinds
	Target string    // only events of this target's jobs, and about the target
	Since  time.Time // only events at or after this time
	Until  time.Time // only events before this time
	Result string    // only ends with this result: ok or fail
	By     string    // only what somebody asked for whose address or name has this in it
	Last   int       // only the newest n of these
	Output bool      // with the jobs' stdout and stderr
}

// Says tells whether a payload says what the filter asks of Result and By.
func (f Filter) Says(payload Payload) bool {
	if f.Result != "" {
		if done, ended := payload.(Done); !ended || done.Result != f.Result {
			return false
		}
	}
	return f.By == "" || isBy(askedBy(payload), f.By)
}

package store

import (
	"time"

	"jobd/journal"
)

// batchSize is how many events go into one transaction at most.
const batchSize = 512

// Aside is a row that can't be updated for now, for people to see.
type Aside struct {
	Job    int64
	Target string // of the claim; "" where it is not known
	Wanted string // the status that it is to get next
	Reason string
	Since  time.Time
}

// aside is what a job's row is owed while it can't be updated.
type aside struct {
	changes  []Change // of one claim each, the oldest first, which is the one that is tried
	fate     Fate     // of the newest try
	reason   string
	since    time.Time     // of the first try of this change, by this process
	refused  time.Time     // of the first try that was refused
	earlier  time.Duration // for how long it was aside before this process
	noted    []string      // the reasons that are journalled
	pause    time.Duration
	next     time.Time // of the next try
	watchers []watcher // for events of this job, which were tried
}

// first is the oldest event that the row does not show.
func (a *aside) first() uint64 { return a.changes[0].first }

// former is what a former process journalled of a row that it had set aside.
type former struct {
	journal.SetAside
	at time.Time
}

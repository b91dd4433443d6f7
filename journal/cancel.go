package journal

import (
	"net/netip"
	"strings"
	"time"
)

// Cancelled says that somebody wants a claimed job not to run. One that was not started is at its
// end with that: its row becomes ignored. One that runs gets SIGTERM, and SIGKILL when the grace is
// over, each by a Signal of its own; its end is a Done.
type Cancelled struct {
	By    string `json:"by"`              // who asked
	Runs  bool   `json:"runs,omitempty"`  // it was started, now or in an attempt before: it ends as done
	Grace int64  `json:"grace,omitempty"` // microseconds between SIGTERM and SIGKILL, where it runs
	Token string `json:"token"`           // of the claim
}

// Reason is why a cancelled job did not run, or not to its own end, in the words that stand in its
// row.
func (c Cancelled) Reason() string { return CancelledBy(c.By) }

// CancelledBy says who cancelled a job, by the addresses in by, without their ports: those tell a
// reader of the row nothing.
func CancelledBy(by string) string {
	words := strings.Fields(by)
	for i, word := range words {
		if at, err := netip.ParseAddrPort(word); err == nil {
			words[i] = at.Addr().String()
		}
	}
	return cancelledBy + strings.Join(words, " ")
}

// cancelledBy begins the reason of an end that somebody wanted.
const cancelledBy = "cancelled by "

// WasCancelled tells whether a job ended because somebody had cancelled it: that is no failure of its
// own.
func (d Done) WasCancelled() bool { return strings.HasPrefix(d.Reason, cancelledBy) }

// Cancellation is what the journal knows of somebody's wish that a job does not run.
type Cancellation struct {
	Time  time.Time
	By    string
	Grace time.Duration // between SIGTERM and SIGKILL, where it runs
}

// Deadline is when a job that runs gets SIGKILL.
func (c Cancellation) Deadline() time.Time { return c.Time.Add(c.Grace) }

// cancel ends a job that was not started, or marks one that runs.
func (j Job) cancel(p Cancelled, e Event) (Job, error) {
	j.Cancelled = &Cancellation{Time: e.Time, By: p.By, Grace: time.Duration(p.Grace) * time.Microsecond}
	switch {
	case p.Runs && j.Status == StatusAccepted:
		return Job{}, &IllegalError{Job: j.ID, kind: KindCancelled, status: j.Status, detail: "it does not run"}
	case !p.Runs && j.Status == StatusRunning:
		return Job{}, &IllegalError{Job: j.ID, kind: KindCancelled, status: j.Status, detail: "it runs"}
	case !p.Runs:
		j.Status, j.Ended, j.Reason = StatusIgnored, e.Time, p.Reason()
	}
	return j, nil
}

// ignored is a job of which nobody made a claim, and that is not to be run.
func ignored(id int64, p Ignored, at time.Time) Job {
	j := Job{ID: id, Status: StatusIgnored, Ended: at, Reason: p.Reason}
	if p.By != "" {
		j.Cancelled = &Cancellation{Time: at, By: p.By}
	}
	return j
}

// checkpoint is the form that stands in a checkpoint.
func (c *Cancellation) checkpoint() *checkpointCancel {
	if c == nil {
		return nil
	}
	return &checkpointCancel{Time: micros(c.Time), By: c.By, Grace: c.Grace.Microseconds()}
}

// cancellation is the reverse of checkpoint.
func (c *checkpointCancel) cancellation() *Cancellation {
	if c == nil {
		return nil
	}
	return &Cancellation{Time: moment(c.Time), By: c.By, Grace: time.Duration(c.Grace) * time.Microsecond}
}

package journal

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A job that runs stays what it is when it is cancelled, and is known to be, in checkpoints too.
func TestCancelledWhileItRuns(t *testing.T) {
	t.Parallel()
	by := "10.0.0.5:4711"
	for _, status := range []Status{StatusStarting, StatusRunning} {
		state := stateAfter(t, paths[status])
		state.Jobs[1].Token = "@a"
		now := state.Time.Add(time.Second)
		for i, grace := range []time.Duration{time.Minute, 0} { // the newest one counts
			wish := Cancelled{By: by, Runs: true, Grace: grace.Microseconds(), Token: "@a"}
			if err := state.Apply(Event{Seq: state.Seq + 1, Time: now, Job: 1, Payload: wish}); err != nil {
				t.Fatalf("%s, cancelled %d times: %v", status, i+1, err)
			}
			want := &Cancellation{Time: now, By: by, Grace: grace}
			data, err := EncodeCheckpoint(state)
			if err != nil {
				t.Fatal(err)
			}
			again, err := DecodeCheckpoint(data)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []*State{state, again} {
				if job := s.Job(1); job.Status != status || !cmp.Equal(job.Cancelled, want) {
					t.Errorf("%s: then the job is %s, cancelled %+v; want %+v", status, job.Status, job.Cancelled, want)
				}
			}
			if deadline := state.Job(1).Cancelled.Deadline(); !deadline.Equal(now.Add(grace)) {
				t.Errorf("it is killed at %s", deadline)
			}
		}
	}
}

// A job that was never started does not run on, and another claim's news is none of its business.
func TestCancelledIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status Status
		wish   Cancelled
	}{
		"as running, where it was not started": {StatusAccepted, Cancelled{Runs: true}},
		"as not started, where it runs":        {StatusRunning, Cancelled{}},
		"of another claim":                     {StatusAccepted, Cancelled{Token: "@b"}},
		"of another claim that ran":            {StatusRunning, Cancelled{Token: "@b", Runs: true}},
		"after its end":                        {StatusDone, Cancelled{Runs: true}},
	} {
		state := stateAfter(t, paths[c.status])
		state.Jobs[1].Token = "@a"
		if err := state.Apply(Event{Seq: state.Seq + 1, Time: state.Time, Job: 1, Payload: c.wish}); err == nil {
			t.Errorf("%s: the job was cancelled", name)
		}
		if job := state.Job(1); job.Status != c.status || job.Cancelled != nil {
			t.Errorf("%s: the job is %s then, cancelled %+v", name, job.Status, job.Cancelled)
		}
	}
}

// What the mirror finds later changes nothing of a claim that was cancelled.
func TestCancelledIsOver(t *testing.T) {
	t.Parallel()
	state := stateAfter(t, []Payload{Accepted{Target: "t", Token: "@a"}, Cancelled{By: "10.0.0.5:1", Token: "@a"}})
	conflict := Conflict{Wanted: RowIgnored, Reason: "done", Token: "@a"}
	if err := state.Apply(Event{Seq: state.Seq + 1, Time: state.Time, Job: 1, Payload: conflict}); err != nil {
		t.Fatal(err)
	}
	if job := state.Job(1); job.Status != StatusIgnored || job.Reason != "cancelled by 10.0.0.5" {
		t.Errorf("the job is %s, because %q", job.Status, job.Reason)
	}
}

// Rows tell who cancelled their jobs by address, without the port.
func TestCancelledBy(t *testing.T) {
	t.Parallel()
	for by, want := range map[string]string{
		"10.0.0.5:4711":                     "cancelled by 10.0.0.5",
		"[::1]:4711 via master 10.0.0.9:99": "cancelled by ::1 via master 10.0.0.9",
		"master 10.0.0.9:99":                "cancelled by master 10.0.0.9",
		"somebody":                          "cancelled by somebody",
	} {
		if got := CancelledBy(by); got != want {
			t.Errorf("%s: %q, want %q", by, got, want)
		}
	}
}

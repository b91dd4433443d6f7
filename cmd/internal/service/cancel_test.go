package service

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/exec/board"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/must"
)

// Who cancels jobs is told what became of each, and the worker is told who it is.
func TestCancel(t *testing.T) {
	t.Parallel()
	at, grace := time.UnixMilli(1_700_000_000_000), int64(2000)
	worker := &stub{cancelled: jobexec.Cancelled{
		Answer: jobexec.Answer[jobexec.CancelledJob]{
			Jobs: map[int64]jobexec.CancelledJob{
				1: {Did: board.NotRun, Target: "a", At: at, By: "me"},
				2: {Did: board.Signals, Target: "a", At: at, Grace: 2 * time.Second, By: "me"},
				3: {Did: board.Already, Target: "a", At: at, Grace: time.Second, By: "other"},
				4: {Did: board.GivenUp, Target: "b", At: at, By: "me"},
			},
			Errors:    map[int64]string{5: "job 5 is done already"},
			Requested: true,
		},
		Elsewhere: map[int64]journal.Row{6: {Job: 6, Target: "c", Status: "running", Owner: "@ab"}},
	}}
	query := api.CancelQuery{IDs: []jobnet.Whole{1, 2, 3, 4, 5, 6}, Targets: map[jobnet.Whole]string{1: "a"}, Grace: &grace, Rows: true}
	got := must.Get(newService(worker).Cancel(t.Context(), asked("x"), query))(t)
	want := api.CancelAnswer{
		Jobs: map[jobnet.Whole]api.CancelledJob{
			1: {State: "ignored", Target: "a", By: "me"},
			2: {State: "cancelling", Target: "a", By: "me", Grace: 2000, Kill: at.UnixMilli() + 2000},
			3: {State: "cancelling", Target: "a", By: "other", Before: true, Grace: 1000, Kill: at.UnixMilli() + 1000},
			4: {State: "done", Target: "b", By: "me"},
		},
		Errors:    map[jobnet.Whole]string{5: "job 5 is done already"},
		Elsewhere: map[jobnet.Whole]api.ClaimedRow{6: {Status: "running", Owner: "@ab", Target: "c"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if did := []string{"cancel [1 2 3 4 5 6] of map[1:a] within 2s, rows true, by " + caller}; !cmp.Equal(worker.did, did) {
		t.Errorf("the worker was asked for %q, want %q", worker.did, did)
	}
}

// A cancel that changed nothing is part of the history.
func TestCancelInVainIsJournalled(t *testing.T) {
	t.Parallel()
	worker := &stub{cancelled: jobexec.Cancelled{Answer: jobexec.Answer[jobexec.CancelledJob]{Errors: map[int64]string{5: "job 5 is done already"}}}}
	must.Get(newService(worker).Cancel(t.Context(), asked("ids=[5]"), api.CancelQuery{IDs: []jobnet.Whole{5}}))(t)
	want := []journal.Payload{journal.Refused{Request: "cancel", About: "ids=[5]", Reason: "job 5 is done already", By: caller}}
	if diff := cmp.Diff(want, worker.events); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	worker = &stub{refuses: jobexec.RefusedError("nothing was cancelled: there is no room for the journal")}
	if _, err := newService(worker).Cancel(t.Context(), asked("ids=[5]"), api.CancelQuery{IDs: []jobnet.Whole{5}}); err == nil || len(worker.events) != 1 {
		t.Errorf("error %v, journal %v", err, worker.events)
	}
}

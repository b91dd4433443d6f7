package service

import (
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/board"
	"jobd/journal"
	"jobd/net/api"
)

// The list is cut behind what comes first in its order; what can't be measured comes last, and is
// told as not known.
func TestRunningJobsAreSortedBeforeTheListIsCut(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_800_000_000_000)
	s := newService(&stub{running: []jobexec.JobStanding{
		{ID: 1, Standing: board.Standing{Began: at.Add(3 * time.Second)}, Usage: &jobexec.Usage{Ran: 5 * time.Second, CPU: time.Second, Memory: 30, Processes: 2}},
		{ID: 2, Standing: board.Standing{Began: at}, Usage: &jobexec.Usage{CPU: 3 * time.Second, Memory: 10}},
		{
			ID: 3, Standing: board.Standing{Began: at.Add(time.Second), Target: "a", Manual: true, Attempt: 2},
			Started: journal.Started{Pid: 7}, Adopted: true, Cancelled: true,
		},
		{ID: 4},
	}})
	for order, want := range map[string][]int64{
		api.SortAge: {4, 2, 3, 1}, api.SortCPU: {2, 1, 4, 3}, api.SortMemory: {1, 2, 4, 3},
	} {
		for most := 1; most <= 4; most++ {
			got, err := s.Running(t.Context(), asked("x"), api.RunningQuery{Sort: order, Most: most})
			if err != nil || got.Total != 4 || len(got.Jobs) != most {
				t.Fatalf("%d of %d jobs, want %d: %v", len(got.Jobs), got.Total, most, err)
			}
			for i, j := range got.Jobs {
				if int64(j.Job) != want[i] {
					t.Errorf("by %s the jobs are %+v, want %v", order, got.Jobs, want)
				}
			}
		}
	}
	got, _ := s.Running(t.Context(), asked("x"), api.RunningQuery{Sort: api.SortAge, Most: 4})
	if j := got.Jobs[2]; j.Elapsed != nil || j.CPU != nil || j.Memory != nil || !j.Manual || !j.Adopted || !j.Cancelled || j.PID != 7 || j.Attempt != 2 || j.Target != "a" || j.Since != at.UnixMilli()+1000 {
		t.Errorf("job 3 is told as %+v", j)
	}
	if j := got.Jobs[3]; *j.Elapsed != 5000 || *j.CPU != 1000 || *j.Memory != 30 || j.Processes != 2 {
		t.Errorf("job 1 is told as %+v", j)
	}
	if got.Jobs[0].Since != 0 {
		t.Errorf("a start of which nobody knows the time was at %d", got.Jobs[0].Since)
	}
}

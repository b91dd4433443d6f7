package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
)

// Failures that differ by the numbers of jobs and processes only are one group.
func TestFailuresThatAreAlike(t *testing.T) {
	t.Parallel()
	var all []*failure
	fail := func(job int64, code int, line string, done journal.Done) {
		done.Result, done.Code = "fail", &code
		all = append(all, &failure{job: job, line: line, done: done, ended: time.Unix(1e9-job, 0)})
	}
	for job := int64(1); job <= 3; job++ {
		fail(job, 3, fmt.Sprintf("job %d: there is no order 77", job), journal.Done{})
		fail(10+job, 3, fmt.Sprintf("there is no order %d", job), journal.Done{}) // of three different orders
		why := fmt.Sprintf("process %d was asked for the job, and ended", 4000+job)
		fail(20+job, 1, why, journal.Done{Reason: journal.UnknownOutcome + why})
	}
	got := map[string]int{}
	for _, g := range groupsOf(all) {
		got[g.line] = g.count
	}
	want := map[string]int{
		"job 1: there is no order 77": 3, "process 4001 was asked for the job, and ended": 3,
		"there is no order 1": 1, "there is no order 2": 1, "there is no order 3": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

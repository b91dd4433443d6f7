package main

import (
	"fmt"
	"testing"

	"jobd/cmd/jobctl/live"
	"jobd/net/api"
)

// What waits for a target is counted by a worker that can, also where one that can't was there first.
func TestTopHasACapableWorkerCount(t *testing.T) {
	t.Parallel()
	worker := func(database *api.Standing) live.Worker {
		return live.Worker{Status: &api.WorkerStatus{Database: database, Targets: map[string]api.TargetStatus{"a": {}}}}
	}
	old, away, able := worker(nil), worker(&api.Standing{}), worker(&api.Standing{Reachable: true})
	for _, test := range []struct {
		workers []live.Worker
		want    string
	}{
		{[]live.Worker{old, away, able, able}, "[[] [] [a] []]"},
		{[]live.Worker{old, away}, "[[] [a]]"},
		{[]live.Worker{old, old}, "[[a] []]"},
		{[]live.Worker{able, able}, "[[a] []]"},
	} {
		if got := fmt.Sprint(counters(test.workers, []string{"a", "nobody's"})); got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
}

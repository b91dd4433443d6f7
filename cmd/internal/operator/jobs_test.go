package operator

import (
	"fmt"
	"slices"
	"testing"

	"jobd/net/api"
)

// What several workers had is one page, the newest first, each job once; what stands behind a place that one of them
// has not looked behind waits for the next page.
func TestPagesOfSeveralWorkers(t *testing.T) {
	t.Parallel()
	at := func(at int64, seq uint64) api.JobKey { return api.JobKey{At: at, Seq: seq} }
	job := func(worker string, id int64, key api.JobKey) FoundJob {
		return FoundJob{api.FoundJob{Job: whole([]int64{id})[0], Key: key.String()}, worker}
	}
	all := []FoundJob{job("a", 1, at(90, 4)), job("b", 2, at(80, 9)), job("b", 1, at(70, 8)), job("a", 3, at(60, 3)), job("b", 4, at(60, 3)), job("a", 5, at(50, 2))}
	for _, test := range []struct {
		most int
		end  api.JobKey
		want string
		next api.JobKey
	}{
		{10, api.JobKey{}, "[1 2 3 4 5]", api.JobKey{}},
		{10, at(60, 3), "[1 2 3 4]", at(60, 3)},
		{10, at(85, 1), "[1]", at(85, 1)},
		{2, at(60, 3), "[1 2]", at(80, 9)},
		{3, api.JobKey{}, "[1 2 3 4]", at(60, 3)}, // two with one key stay together
		{10, at(95, 9), "[]", at(95, 9)},
	} {
		page := FoundJobs{Jobs: slices.Clone(all)}
		page.cut(test.most, test.end)
		var ids []int64
		for _, job := range page.Jobs {
			ids = append(ids, int64(job.Job))
		}
		if got := fmt.Sprint(ids); got != test.want || page.Next != test.next.String() {
			t.Errorf("%d up to %v: %s, next %s", test.most, test.end, got, page.Next)
		}
	}
}

// Steps are added to those of the same time.
func TestCountsAreAddedByTime(t *testing.T) {
	t.Parallel()
	var sum api.Counts
	add(&sum, api.Counts{Started: []int64{1, 2, 3}, Ended: []int64{1, 1, 1}, Failed: []int64{0, 0, 1}}, 0)
	add(&sum, api.Counts{Started: []int64{9, 10, 20}, Ended: []int64{0, 0, 5}, Failed: []int64{9, 0, 0}}, 1)
	if got := fmt.Sprint(sum); got != "{[11 22 3] [1 6 1] [0 0 1]}" {
		t.Errorf("%s", got)
	}
}

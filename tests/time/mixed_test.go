package time

import (
	"testing"

	"jobd/tests/harness"
)

// A worker whose configuration names no columns works beside one that uses them all, on the same
// target: it takes rows that wait and ends them for good, and never touches one that is delayed.
func TestAWorkerThatUsesNoColumns(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	old := s.worker("old", map[string]int{"a": 4}).Without("use_columns").StartWorker(t)
	at := s.now()
	s.insert(timed{id: 1, runAt: at}, timed{id: 2, runAt: at, schedule: "every 1s"}, timed{id: 3, schedule: "bad"},
		timed{id: 4, status: "waiting", schedule: "every 1s", uniqueKey: "4"}, timed{id: 5, status: "waiting", schedule: "bad", attempts: 7},
		timed{id: 6, status: "manual", schedule: "every 1s"})
	poll(t, old)
	for _, id := range []int64{4, 5} {
		row := s.awaitStatus(id, "done")
		want := timed{id: id, target: "a", status: "done", schedule: row.schedule, result: "ok", started: row.started}
		if id == 4 {
			want.uniqueKey = "4" // it is not the worker's
		} else {
			want.attempts = 7
		}
		if row != want {
			t.Errorf("%s, want %s", row, want)
		}
	}
	var answer harness.Jobs
	client := harness.Dial(t, old.Addr)
	client.Ask(t, "run-manual", map[string]any{"ids": []int{1, 6}}).Decode(t, &answer)
	if answer.Jobs["6"].Result != "ok" || answer.Errors["1"] == "" {
		t.Errorf("run-manual of a delayed row and of a manual one: %+v", answer)
	}
	poll(t, old)
	idle(t, old)
	for i, r := range s.rows("id <= 3") {
		if want := []timed{{id: 1, runAt: at}, {id: 2, runAt: at, schedule: "every 1s"}, {id: 3, schedule: "bad"}}[i]; r.status != "delayed" || r.runAt != want.runAt || r.plannedAt != 0 {
			t.Errorf("it was touched: %s", r)
		}
	}

	modern := s.worker("modern", map[string]int{"a": 4}).StartWorker(t)
	s.awaitStatus(1, "done")
	s.awaitStatus(3, "ignored")
	s.oracle.await(t, 2, 4)
	var both []timed
	for id := range int64(size(200, 5000)) {
		row := timed{id: 100 + id, runAt: at}
		if id%2 == 0 {
			row.status = "waiting"
		}
		both = append(both, row)
	}
	s.insert(both...)
	poll(t, old)
	poll(t, modern)
	s.awaitCountGrowing(len(both), "id >= 100 AND status = 'done'")
	byOld := 0
	for _, begun := range s.oracle.starts(t) {
		switch {
		case begun.worker != "old":
		case begun.id%2 == 1 && begun.id >= 100 || begun.id == 1 || begun.id == 2:
			t.Errorf("the old worker has run %s, which was delayed", begun)
		default:
			byOld++
		}
	}
	t.Logf("the old worker has run %d of %d rows", byOld, len(both))
	s.expectSchedule(2)
}

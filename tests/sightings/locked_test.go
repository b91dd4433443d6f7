package sightings

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/tests/harness"
)

// Somebody holds the row of a job that runs, and another one's that is claimed and waits for its turn. All
// other jobs of all targets start and end; the two do when their rows are free.
func TestALockedRowHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t, 1, 2)
	worker := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 2, "b": 2, "c": 1}),
		harness.Settings{"prefetch": "2"}).StartWorker(t)
	insert(t, db, "a", "waiting", 1)
	insert(t, db, "c", "waiting", 2, 3)
	poll(t, worker)
	l.awaitStarts(t, 2)
	awaitCount(t, db, 1, "id = 3 AND status = 'accepted'")
	unlock := lockRows(t, db, 1, 3)
	l.letGo(t) // job 1 ends, and job 3 is to start
	rounds := int64(size(3, 20))
	for round := range rounds {
		<-time.After(moment) // that is how long the rows have been held, once more
		first := 100 + 40*round
		insert(t, db, "a", "waiting", span(first, first+19)...)
		insert(t, db, "b", "waiting", span(first+20, first+39)...)
		poll(t, worker)
		awaitCount(t, db, 40*int(round+1), "id >= 100 AND status = 'done' AND result = 'ok'")
	}
	awaitCount(t, db, 1, "id = 2 AND status = 'done'")
	unlock()
	awaitCount(t, db, 0, "status <> 'done' OR result <> 'ok'")
	l.expectOnce(t, 3+40*int(rounds))
}

// A worker was killed, and at its next start somebody holds rows that it has to look at: one that had
// been claimed, one whose job runs, one whose job has ended. It serves everything else meanwhile.
func TestRowsInDoubtThatAreLockedAtTheStart(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t, 1, 2)
	s := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 2, "b": 2}), harness.Settings{"prefetch": "2"})
	worker := s.StartWorker(t)
	insert(t, db, "a", "waiting", 1, 2, 3)
	poll(t, worker)
	l.awaitStarts(t, 2)
	awaitCount(t, db, 1, "id = 3 AND status = 'accepted'")
	worker.Kill(t)
	l.letGo(t, 2)
	unlock := lockRows(t, db, 1, 2, 3)
	worker = s.StartWorker(t)
	insert(t, db, "a", "waiting", span(10, 29)...)
	insert(t, db, "b", "waiting", span(30, 49)...)
	poll(t, worker)
	awaitCount(t, db, 40, "id >= 10 AND status = 'done' AND result = 'ok'")
	unlock()
	l.letGo(t)
	awaitCount(t, db, 43, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 43)
}

// A worker stops while somebody holds one of the rows that it gives back. It gives back the others, ends, and
// gives back that one at its next start.
func TestStopWhileARowIsLocked(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t, 1)
	s := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 1}), harness.Settings{"prefetch": "3"})
	worker := s.StartWorker(t)
	insert(t, db, "a", "waiting", span(1, 4)...)
	poll(t, worker)
	l.awaitStarts(t, 1)
	awaitCount(t, db, 3, "status = 'accepted'")
	unlock := lockRows(t, db, 3)
	worker.Signal(t, syscall.SIGTERM)
	awaitCount(t, db, 2, "id IN (2, 4) AND status = 'waiting'")
	l.letGo(t)
	awaitCount(t, db, 1, "id = 1 AND status = 'done'")
	if code := worker.ExitCode(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.StartWorker(t)
	awaitCount(t, db, 3, "id <> 3 AND status = 'done'")
	unlock()
	awaitCount(t, db, 4, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 4)
}

// Eight clients ask for manual jobs whose rows somebody holds. They take no connections away from the
// others, however few there are, and they hear the truth.
func TestManualJobsOnLockedRowsStarveNobody(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{4, 8} {
		t.Run(fmt.Sprint(connections), func(t *testing.T) {
			t.Parallel()
			manualOnLockedRows(t, connections)
		})
	}
}

func manualOnLockedRows(t *testing.T, connections int) {
	const clients = 8
	db, l := harness.NewDatabase(t), newLauncher(t)
	worker := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 4}),
		harness.Settings{"mysql_max_connections": fmt.Sprint(connections)}).StartWorker(t)
	insert(t, db, "a", "manual", span(1, clients)...)
	unlock := lockRows(t, db, span(1, clients)...)
	all := make([]*harness.Wire, clients)
	for i := range all {
		all[i] = harness.Dial(t, worker.Addr)
		all[i].Request(t, "run-manual", map[string]any{"ids": []int{i + 1}})
	}
	insert(t, db, "a", "waiting", span(101, 140)...)
	poll(t, worker)
	most := 0
	await(t, func() string {
		var now int
		const count = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = ?"
		if err := db.Admin.QueryRow(count, db.Account.User).Scan(&now); err != nil {
			t.Fatal(err)
		}
		most = max(most, now)
		return atLeast(t, db, 40, "id > 100 AND status = 'done' AND result = 'ok'")
	})
	if most > connections {
		t.Errorf("the worker had %d connections, and may have %d", most, connections)
	}
	for i, client := range all {
		response, _ := client.Answer(t)
		var answer harness.Jobs
		response.Decode(t, &answer)
		if text := answer.Errors[fmt.Sprint(i+1)]; !strings.Contains(text, "locked by somebody else") {
			t.Errorf("the client of job %d hears %v %v", i+1, answer.Jobs, answer.Errors)
		}
	}
	unlock()
	var answer harness.Jobs
	harness.Dial(t, worker.Addr).Ask(t, "run-manual", map[string]any{"ids": span(1, clients)}).Decode(t, &answer)
	if len(answer.Jobs) != clients {
		t.Errorf("when the rows are free, the answer is %v %v", answer.Jobs, answer.Errors)
	}
	l.expectOnce(t, 40+clients)
}

package sightings

import (
	"fmt"
	"strings"
	"testing"

	"jobd/store/storetest/dbserver"
	"jobd/tests/harness"
)

// The file takes a busy target away and brings it back while its job still runs: it is served,
// now and after the job has ended.
func TestReloadTakesABusyTargetAwayAndBringsItBack(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t, 1)
	with := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 1, "b": 1}))
	worker := with.StartWorker(t)
	insert(t, db, "a", "waiting", 1)
	poll(t, worker, "a")
	l.awaitStarts(t, 1)

	concurrencies := func(want string) {
		t.Helper()
		await(t, func() string {
			found := map[string]int{}
			for name, target := range statusOf(t, worker).Targets {
				found[name] = target.Concurrency
			}
			if got := fmt.Sprint(found); !strings.Contains(got, want) {
				return fmt.Sprintf("targets are %s, want %s", got, want)
			}
			return ""
		})
	}
	reload(t, worker, with.Without("[targets] a").With(harness.Targets(map[string]int{"b": 2})))
	concurrencies("b:2") // the file was read
	reload(t, worker, with.With(harness.Targets(map[string]int{"b": 3})))
	concurrencies("b:3")
	concurrencies("a:1")
	l.letGo(t)
	awaitCount(t, db, 1, "id = 1 AND status = 'done'")
	insert(t, db, "a", "waiting", 2)
	insert(t, db, "b", "waiting", 3)
	poll(t, worker, "b")
	awaitCount(t, db, 1, "id = 3 AND status = 'done'")
	concurrencies("a:1")
	poll(t, worker, "a")
	awaitCount(t, db, 3, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 3)
}

// What was changed over the wire meanwhile is no reason to leave the targets other than the file says.
func TestReloadComparesWithWhatIs(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t)
	s := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 1, "b": 1}))
	worker := s.StartWorker(t)
	ask(t, worker, "remove-target", map[string]any{"target": "a"})
	ask(t, worker, "set-target-concurrency", map[string]any{"target": "b", "concurrency": 7})
	ask(t, worker, "add-target", map[string]any{"target": "c", "concurrency": 1})
	reload(t, worker, s)
	await(t, func() string {
		targets := statusOf(t, worker).Targets
		if len(targets) != 2 || targets["a"].Concurrency != 1 || targets["b"].Concurrency != 1 {
			return fmt.Sprintf("targets are %v", targets)
		}
		return ""
	})
	insert(t, db, "a", "waiting", 1)
	poll(t, worker, "a")
	awaitCount(t, db, 1, "status = 'done'")
}

// Two targets that the column's collation takes for one are refused together; the words name both.
func TestTwoTargetsThatAreOneToTheTable(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{{"A", "a"}, {"straße", "strasse"}} {
		t.Run(pair[0], func(t *testing.T) {
			t.Parallel()
			table := strings.Replace(dbserver.JobsTable, "utf8", "utf8mb4 COLLATE utf8mb4_unicode_ci", 1)
			db := harness.NewDatabase(t, table)
			both := map[string]int{pair[0]: 1, pair[1]: 5}
			s := quiet(db.Worker(t, "worker", "/bin/echo {id}", both))
			worker := harness.Launch(t, "jobd", s.Write(t), s.Addr())
			await(t, func() string {
				if worker.Running() {
					return "it serves both"
				}
				return ""
			})
			if code := worker.ExitCode(t); code == 0 || !strings.Contains(worker.Output(), pair[0]) || !strings.Contains(worker.Output(), pair[1]) {
				t.Errorf("exit code %d: %s", code, worker.Output())
			}
		})
	}
}

// The table can't be asked at the start. When it can, one of the two targets is told as not served, with the
// reason, and the rows of both names are run by the other one.
func TestTwoTargetsThatAreFoundToBeOneLater(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t)
	to := newWay(t, db.Addr)
	to.refuse(true)
	insert(t, db, "A", "waiting", span(1, 10)...)
	insert(t, db, "a", "waiting", span(11, 20)...)
	worker := quiet(db.Worker(t, "worker", l.command, map[string]int{"A": 2, "a": 2, "b": 1}), to.toDatabase()).StartWorker(t)
	to.refuse(false)
	awaitCount(t, db, 20, "status = 'done' AND result = 'ok'")
	await(t, func() string {
		targets := statusOf(t, worker).Targets
		if (targets["A"].Why == "") == (targets["a"].Why == "") || targets["b"].Why != "" {
			return fmt.Sprintf("one of A and a is not told as not served: %+v", targets)
		}
		return ""
	})
	l.expectOnce(t, 20)
}

// A name that comes later, over the wire, and is one to the table with one that is served, is
// refused as well; where the collation tells them apart both are served.
func TestAddingATargetThatIsOneToTheTable(t *testing.T) {
	t.Parallel()
	binary := strings.Replace(dbserver.JobsTable, "utf8", "utf8 COLLATE utf8_bin", 1)
	for name, c := range map[string]struct {
		table string
		taken bool
	}{"one": {dbserver.JobsTable, true}, "two": {binary, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, l := harness.NewDatabase(t, c.table), newLauncher(t)
			worker := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 1})).StartWorker(t)
			client := harness.Dial(t, worker.Addr)
			response := client.Ask(t, "add-target", map[string]any{"target": "A", "concurrency": 5})
			if taken := response.Error != ""; taken != c.taken {
				t.Errorf("add-target A beside a is answered with %s%s", response.Data, response.Error)
			}
			ask(t, worker, "pause", map[string]any{"targets": []string{"a"}})
			insert(t, db, "A", "waiting", 1)
			poll(t, worker)
			if !c.taken {
				awaitCount(t, db, 1, "status = 'done'")
			}
		})
	}
}

// The table says Reports, the configuration reports, and the collation says that this is one name: then it
// is for claims, for run-manual, and for what comes through the master alike.
func TestARowsTargetIsWrittenOtherwise(t *testing.T) {
	t.Parallel()
	db, l, master := harness.NewDatabase(t), newLauncher(t), harness.StartMaster(t)
	worker := quiet(db.Worker(t, "worker", l.command, map[string]int{"reports": 1}), harness.MasterOf(master)).StartWorker(t)
	harness.AwaitWorkers(t, master, "", 1)
	insert(t, db, "Reports", "waiting", 1)
	poll(t, worker)
	awaitCount(t, db, 1, "id = 1 AND status = 'done' AND result = 'ok'")
	insert(t, db, "Reports", "waiting", 2)
	poke(t, master, "Reports")
	awaitCount(t, db, 1, "id = 2 AND status = 'done' AND result = 'ok'")

	insert(t, db, "Reports", "manual", 3, 4)
	var answer harness.Jobs
	harness.Dial(t, worker.Addr).Ask(t, "run-manual", map[string]any{"ids": []int64{3}}).Decode(t, &answer)
	if answer.Jobs["3"].Result != "ok" {
		t.Errorf("run-manual answers %v %v", answer.Jobs, answer.Errors)
	}
	jobs := []any{map[string]any{"id": 4, "target": "Reports"}}
	harness.Dial(t, master.Addr).Ask(t, "run-manual", map[string]any{"jobs": jobs}).Decode(t, &answer)
	if answer.Jobs["4"].Result != "ok" {
		t.Errorf("run-manual through the master answers %v %v", answer.Jobs, answer.Errors)
	}
	awaitCount(t, db, 4, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 4)
}

// A name in quotes is the name inside them, spaces kept; without them it is what is left without spaces.
func TestQuotedTargetNames(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t)
	worker := quiet(db.Worker(t, "worker", l.command, map[string]int{`" two  words"`: 1, "plain": 1})).StartWorker(t)
	insert(t, db, " two  words", "waiting", 1)
	insert(t, db, "plain", "waiting", 2)
	poll(t, worker)
	awaitCount(t, db, 2, "status = 'done'")
}

// A file adds a target whose name the column's character set does not have. That target can't be served:
// the file is not taken over, which the log says, and the others go on.
func TestATargetOutsideTheColumnsCharset(t *testing.T) {
	t.Parallel()
	table := strings.Replace(dbserver.JobsTable, "CHARSET=utf8", "CHARSET=latin1", 1)
	db, l := harness.NewDatabase(t, table), newLauncher(t)
	s := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 2, "b": 2}))
	worker := s.StartWorker(t)
	reload(t, worker, s.With(harness.Targets(map[string]int{"目标": 1})))
	awaitSays(t, worker, "configuration is refused")
	insert(t, db, "a", "waiting", span(1, 20)...)
	insert(t, db, "b", "waiting", span(21, 40)...)
	poll(t, worker)
	awaitCount(t, db, 40, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 40)
	awaitSays(t, worker, "目标")
}

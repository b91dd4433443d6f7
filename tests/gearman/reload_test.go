package gearman

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// A reload that takes a function out of the configuration leaves it a target, while a worker can do it and jobs wait;
// one that names it makes it the configuration's, whose slots do not follow the workers.
func TestAReloadLosesNoFunction(t *testing.T) {
	t.Parallel()
	settings, addr, _ := site(t)
	plain := harness.Settings{"[targets] tr": "1", "[target tr] launcher": "/bin/cat"}
	named := settings.With(plain, harness.Settings{"[targets] rev": "1"})
	jobd := named.StartWorker(t)
	awaitListener(t, addr)
	worker, client := dial(t, addr), dial(t, addr)
	must.Do(t, worker.send(1, "rev")) // CAN_DO
	for range 3 {
		client.asked(t, 8, 7, "rev", "", "abc") // JOB_CREATED to SUBMIT_JOB
	}
	reload := func(s harness.Settings) {
		t.Helper()
		must.Do(t, os.WriteFile(jobd.Config+".new", []byte(s.String()), 0o600))
		must.Do(t, os.Rename(jobd.Config+".new", jobd.Config))
		if answer := harness.Dial(t, jobd.Addr).Ask(t, "reload", nil); answer.Error != "" {
			t.Fatal(answer.Error)
		}
	}
	work := func(n int) {
		t.Helper()
		for range n {
			job := worker.grab(t)
			must.Do(t, worker.send(13, job.arguments[0], "cba")) // WORK_COMPLETE
			must.Get(client.wanted(13))(t)
		}
	}
	reload(settings.With(plain, harness.Settings{"[targets] other": "1"}))
	work(3)
	client.asked(t, 8, 7, "tr", "", "abc")
	must.Get(client.ended(13))(t)
	reload(settings.With(harness.Settings{"[targets] rev": "5"})) // which ends tr: no worker can do it
	second := dial(t, addr)
	must.Do(t, second.send(1, "rev"))
	client.asked(t, 8, 7, "rev", "", "abc")
	work(1)
	var status struct {
		Targets map[string]struct{ Concurrency int }
	}
	harness.Dial(t, jobd.Addr).Ask(t, "status", nil).Decode(t, &status)
	if n := status.Targets["rev"].Concurrency; n != 5 {
		t.Errorf("rev has %d slots, not the 5 of the configuration", n)
	}
	if _, served := status.Targets["tr"]; served {
		t.Error("a target that a launcher ran is still there")
	}
	if said := jobd.Output(); strings.Contains(said, "does not follow") {
		t.Error(said)
	}
	jobd.Signal(t, syscall.SIGTERM)
}

// One worker of a table's file serves Gearman's programs: who waits for which row is in its memory.
func TestOneWorkerOfAFileServesGearman(t *testing.T) {
	t.Parallel()
	settings, addr, table := site(t)
	settings.StartWorker(t)
	awaitListener(t, addr)
	other, _, _ := site(t)
	code, said := other.With(harness.Settings{"sqlite_path": table, "name": "other"}).Refused(t)
	if code != 1 || !strings.Contains(said, "another worker serves Gearman on this table's file") {
		t.Errorf("exit code %d: %s", code, said)
	}
	other.Without("gearman_listen").With(harness.Settings{"sqlite_path": table, "name": "third", "[targets] rev": "1", "launcher": "/bin/true {id}"}).StartWorker(t)
}

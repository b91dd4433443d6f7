package audit

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// What clients ask for is in the history, with who asked, and so is what they were refused, and the configuration that was
// taken over; never a password.
func TestWhatWasAskedIsInTheHistory(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "node-1", "/bin/echo {id}", map[string]int{"mail": 1}).
		With(harness.Settings{"password": "s3cret", "always_allow_localhost": "true"})
	worker := settings.StartWorker(t)
	client := harness.Dial(t, worker.Addr)
	db.Insert(t, 1, "mail", "manual")
	db.Insert(t, 2, "mail", "done")
	client.Ask(t, "run-manual", map[string]any{"ids": []int{1, 7}})
	for kind, data := range map[string]map[string]any{
		"pause":                  {"targets": []string{"nobody"}},
		"continue":               {"targets": []string{"nobody"}},
		"add-target":             {"target": "mail", "concurrency": 1},
		"remove-target":          {"target": "gone"},
		"set-target-concurrency": {"target": "mail", "concurrency": 0},
		"run-manual":             {"ids": []int{2}},
	} {
		client.Ask(t, kind, data)
	}
	client.Ask(t, "run-manual", map[string]any{"ids": []string{"x"}})
	client.Ask(t, "send-signal", map[string]any{"jobs": map[string]int{"5": 15}})
	client.Ask(t, "send-signal", map[string]any{"jobs": map[string]int{"5": 0}}) // probes only

	changed := settings.With(harness.Settings{"password": "an0ther", "launcher": "/bin/true --job={id}"}, harness.Targets(map[string]int{"mail": 3, "print": 1}))
	reload := func(content, done string) {
		t.Helper()
		must.Do(t, os.WriteFile(worker.Config, []byte(content), 0o600))
		worker.Signal(t, syscall.SIGHUP)
		harness.Until(t, func() string {
			if !strings.Contains(worker.Output(), done) {
				return "not read again"
			}
			return ""
		})
	}
	reload(changed.String(), "configuration was read again")
	reload(changed.With(harness.Settings{"prefetch": "s3cret-and-wrong"}).String(), "is refused; the old one")

	log := expect(t, 0, []string{
		`requested       jobs=1,7 by=127.0.0.1:`,
		`request=pause about="targets=[\"nobody\"]" reason="invalid target 'nobody'" by=127.0.0.1:`,
		`request=continue`, `request=add-target`, `reason="target 'mail' already added"`, `request=remove-target about="target=\"gone\""`,
		`request=set-target-concurrency`, `request=run-manual about="ids=[2]" reason="status = done != manual"`,
		`reason="all ids must be numbers, got string"`, `request=send-signal about="jobs={\"5\":15}" reason="nothing was signalled"`,
		`host=`, `launcher="/bin/echo {id}"`,
		fmt.Sprintf("digest=%x", sha256.Sum256([]byte(changed.String()))), `changed=launcher,password,targets.mail,targets.print`,
		`launcher="/bin/true --job={id}" by=SIGHUP`,
		`request=reload`, `reason="the configuration can't be taken over; the worker's log says why" by=SIGHUP`,
	}, worker.Addr, "journal", "log")
	if strings.Count(log, "request=send-signal") != 1 {
		t.Errorf("a probe is in the history:\n%s", log)
	}
	for _, secret := range []string{"s3cret", "an0ther"} {
		if strings.Contains(log, secret) {
			t.Errorf("%q is in the history:\n%s", secret, log)
		}
	}
	if requested, accepted := strings.Index(log, " requested "), strings.Index(log, " accepted "); requested < 0 || requested > accepted {
		t.Errorf("the request does not stand before what was done:\n%s", log)
	}
}

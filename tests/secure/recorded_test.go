package secure

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// The master's journal names who asked it for what, who was refused, and as whom workers registered; jobctl
// finds there what one of them asked for, and not what another of a similar name did.
func TestTheMastersJournalNamesWhoAsked(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	dir := filepath.Join(t.TempDir(), "journal")
	ann, like := p.add("ann", "admin", "*"), p.add("ann-2", "admin", "*")
	read, node := p.add("bob", "read", "*"), p.add("w1", "worker", "mail")
	master := harness.StartMaster(t, p.settings(), harness.Settings{"journal_dir": dir})
	p.db = harness.NewDatabase(t)
	p.db.Worker(t, "w1", "/bin/echo {id}", map[string]int{"mail": 1}).
		With(harness.MasterOf(master), p.settings(), harness.Settings{"password": node}).StartWorker(t)
	awaitSaid(t, master, "worker registered")
	asks := func(token, request, data string) string {
		return ask(t, harness.Dial(t, master.Addr), token, request, data)
	}
	p.db.Insert(t, 7, "mail", "manual")
	asks(ann, "pause", `{"targets":["mail"]}`)
	asks(ann, "continue", `{"targets":["mail"]}`)
	asks(ann, "run-manual", `{"jobs":[{"id":7,"target":"mail"}]}`)
	asks(like, "pause", `{"targets":["mail"]}`)
	asks(read, "pause", `{"targets":["mail"]}`)
	asks(read, "register-worker", `{"name":"bob","targets":["mail"]}`)
	asks(node, "register-worker", `{"name":"w2","targets":["mail"]}`)
	asks(node, "register-worker", `{"name":"w1","targets":["billing"]}`)
	asks(ann, "poke", `{"targets":["mail"]}`)

	log := func(args ...string) (lines []string) {
		said, code := jobctl(t, master, append([]string{"journal", "log"}, args...)...)
		if code != 0 {
			t.Fatalf("jobctl journal log %q: %d: %s", args, code, said)
		}
		for line := range strings.Lines(ports.ReplaceAllString(said, "PORT")) {
			_, text, _ := strings.Cut(line, " worker ")
			lines = append(lines, strings.Join(strings.Fields(text), " "))
		}
		return lines
	}
	for _, test := range []struct {
		by   string
		want []string
	}{
		{"ann", []string{
			`requested request=pause about="targets=[\"mail\"]" workers=w1 by="ann (token, 127.0.0.1:PORT)"`,
			`requested request=continue about="targets=[\"mail\"]" workers=w1 by="ann (token, 127.0.0.1:PORT)"`,
			`requested request=run-manual jobs=7 workers=w1 by="ann (token, 127.0.0.1:PORT)"`,
		}},
		{"ann-2", []string{`requested request=pause about="targets=[\"mail\"]" workers=w1 by="ann-2 (token, 127.0.0.1:PORT)"`}},
		{"bob", []string{
			`refused request=pause about="targets=[\"mail\"]" reason="bob may not ask for pause: that needs the scope admin, and it has read" by="bob (token, 127.0.0.1:PORT)"`,
			`refused request=register-worker about="name=\"bob\" targets=[\"mail\"]" reason="bob may not ask for register-worker: that needs the scope worker, and it has read" by="bob (token, 127.0.0.1:PORT)"`,
		}},
		{"w1", []string{
			`registered worker=w1 targets=mail by="w1 (token, 127.0.0.1:PORT)"`,
			`refused request=register-worker about="name=\"w2\" targets=[\"mail\"]" reason="w1 may register under its own name only, not as w2: give the worker that name, or the token of its own line" by="w1 (token, 127.0.0.1:PORT)"`,
			`refused request=register-worker about="name=\"w1\" targets=[\"billing\"]" reason="w1 may serve mail, not billing" by="w1 (token, 127.0.0.1:PORT)"`,
		}},
	} {
		if got := log("--journal", dir, "--by", test.by); !slices.Equal(got, test.want) {
			t.Errorf("by %s:\n%s\nwant\n%s", test.by, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
}

// A worker does not take up a master's journal: their histories would be one.
func TestAWorkerTakesNoMastersJournal(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	master := harness.StartMaster(t, harness.Settings{"journal_dir": dir})
	master.Signal(t, syscall.SIGTERM)
	master.ExitCode(t)
	settings := harness.NewDatabase(t).Worker(t, "w1", "/bin/true {id}", map[string]int{"a": 1})
	if code, said := settings.With(harness.Settings{"journal_dir": dir}).Refused(t); code != 1 || !strings.Contains(said, "is a master's: the worker needs a folder of its own (key journal_dir)") {
		t.Errorf("exit code %d: %s", code, said)
	}
}

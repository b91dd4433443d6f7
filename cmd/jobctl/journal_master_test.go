package main

import (
	"strings"
	"testing"

	"jobd/cmd/internal/exit"
	"jobd/journal"
	"jobd/store/storetest/must"
)

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
		"show":         {[]string{"show", "9", "--journal", master}, exit.Success, append([]string{"job 9\n", note, "2026-11-20 10:00:03"}, asked...), "pause"},
		"--master":     {[]string{"--master", "show", "9", "--journal", master}, exit.Success, append([]string{note}, asked...), "pause"},
		"journal show": {[]string{"journal", "show", "9", "--journal", master}, exit.Success, append([]string{note}, asked...), "pause"},
		"why":          {[]string{"why", "9", "--journal", master}, exit.Success, []string{"job 9: 2026-11-20 10:00:06", asked[2] + "; " + note}, asked[0]},
		"why of two":   {[]string{"why", "8", "9", "--journal", master}, exit.Success, []string{"job 8: ", "job 9: "}, asked[1]},
		"as JSON":      {[]string{"why", "9", "--journal", master, "--output", "json"}, exit.Success, []string{`"kind":"requested"`, `"workers":["node-1","node-2"],"others":3`}, note},
		"with worker's": {
			[]string{"show", "9", "--journal", master, "--journal", worker},
			exit.Success,
			append([]string{"claimed by web-1", "given back, because the claim was lost"}, asked...), note,
		},
		"worker's why":  {[]string{"why", "9", "--journal", worker}, exit.Success, []string{"given back, because the claim was lost"}, note},
		"unknown":       {[]string{"show", "7", "--journal", master}, exit.NoJob, []string{"job 7: no journal knows it; " + note}, "asked"},
		"why unknown":   {[]string{"why", "7", "8", "--journal", master}, exit.NoJob, []string{"job 7: no journal knows it; " + note, "job 8: "}, "job 9"},
		"with a target": {[]string{"why", "mail:9", "--journal", master}, exit.Usage, []string{"by its ID alone"}, "asked"},
		"so many runs":  {[]string{"show", "-n", "3", "9", "--journal", master}, exit.Usage, []string{"not for --journal"}, "asked"},
		"log --job":     {[]string{"journal", "log", "--job", "9", "--journal", master, "-n", "1"}, exit.Success, []string{`request=cancel jobs=9 about="grace=5" workers="node-1,node-2 and 3 more"`}, "bob"},
		"log --by":      {[]string{"journal", "log", "--by", "ann", "--journal", master}, exit.Success, []string{"request=run-manual jobs=8,9 workers=node-1", "request=pause"}, "eve"},
		"log":           {[]string{"journal", "log", "--journal", master}, exit.Success, []string{"registered", "left", "closed", `request=cancel jobs=9 reason="bob may read, not run"`}, note},
		"verify":        {[]string{"journal", "verify", "--journal", master}, exit.Success, []string{"8"}, note},
		"export":        {[]string{"journal", "export", "--journal", master}, exit.Success, []string{`"kind":"registered"`, `"jobs":[9]`}, note},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := jobctl{}.run(t, test.args...)
			if got.code != test.code || strings.Contains(got.out, test.not) {
				t.Errorf("%+v", got)
			}
			for _, want := range test.want {
				if !strings.Contains(got.out+got.err, want) {
					t.Errorf("%+v, want %q", got, want)
				}
			}
		})
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Which jobs journal state shows, from a folder and through a worker that is too old to select.
func TestJournalStateSelects(t *testing.T) {
	t.Parallel()
	dir := oneDay(t)
	all := jobctl{}.run(t, "journal", "state", "--journal", dir, "--output=json")
	old := startDaemon(t, "", map[string]any{
		"status":         json.RawMessage(`{"targets": {}, "memoryUsage": {}}`),
		"journal-anchor": json.RawMessage(`{"seq": 17, "hash": "` + strings.Repeat("00", 32) + `"}`),
		"journal-state":  json.RawMessage(`{"name": "node-1", "cursor": "c"}`),
		"journal-next":   json.RawMessage(fmt.Sprintf(`{"items": [%s], "more": false}`, strings.ReplaceAll(strings.TrimSpace(all.out), "\n", ","))),
	})
	for args, want := range map[string]string{
		"":                                     "5 6 8 9 7",
		"-n2":                                  "9 7",
		"-n 20000":                             "5 6 8 9 7",
		"--target a":                           "5 9 7",
		"--target a -n2":                       "9 7",
		"--since 2026-11-20T10:00:10Z":         "6 8 9 7",
		"--since 2026-11-20T10:00:10.1Z":       "8 9 7",
		"--since 2026-11-20T10:00:13Z -n1":     "9",
		"--status done --target b":             "6",
		"--target nobody's":                    "",
		"--at 2026-11-20T10:00:09Z --target b": "6",
	} {
		for _, from := range [][]string{{"--journal", dir}, {"--port", old.port}} {
			if strings.Contains(args, "--at") && from[0] == "--port" {
				continue // an older worker knows that one
			}
			got := jobctl{}.run(t, append(append([]string{"journal", "state", "--output=json"}, strings.Fields(args)...), from...)...)
			var ids []string
			for line := range strings.Lines(got.out) {
				var job struct{ Job json.Number }
				if err := json.Unmarshal([]byte(line), &job); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, job.Job.String())
			}
			if strings.Join(ids, " ") != want || got.code != 0 || got.err != "" {
				t.Errorf("%s %s: jobs %q, want %s; %+v", args, from[0], ids, want, got)
			}
		}
	}
	if asked := strings.Join(old.asked(), "\n"); !strings.Contains(asked, `"target":"a","last":2`) || !strings.Contains(asked, `"since":"2026-11-20T10:00:13Z"`) {
		t.Errorf("the worker was not asked to select: %s", asked)
	}
	for args, want := range map[string]string{
		"-n-1": `-n: "-1" is not allowed; allowed is a whole number from 0 on`,
		"--since 2026-11-20T10:00:10Z --at 2026-11-20T10:00:09Z": "journal state: --since is not before --at",
	} {
		got := jobctl{}.run(t, append([]string{"journal", "state", "--journal", dir}, strings.Fields(args)...)...)
		if got != (output{code: 2, err: "jobctl: " + want + "\n"}) {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// Rows that were pruned are no difference, if that is wanted: then the exit code watches the others.
func TestJournalDiffIgnoresDeletedRows(t *testing.T) {
	t.Parallel()
	differences := func(items string) *daemon {
		return startDaemon(t, "", map[string]any{
			"status":       json.RawMessage(`{"targets": {}, "memoryUsage": {}}`),
			"journal-diff": json.RawMessage(`{"name": "node-1", "cursor": "c"}`), // an older worker tells of all
			"journal-next": json.RawMessage(`{"items": [` + items + `], "more": false}`),
		})
	}
	const (
		done    = `{"job": 1, "cause": "changed", "want": {"job": 1, "status": "done"}, "found": null}`
		ignored = `{"job": 2, "cause": "changed", "want": {"job": 2, "status": "ignored"}, "found": null}`
		running = `{"job": 3, "cause": "changed", "want": {"job": 3, "status": "running"}, "found": null}`
		edited  = `{"job": 4, "cause": "changed", "want": {"job": 4, "status": "done"}, "found": {"job": 4, "status": "waiting"}}`
		foreign = `{"job": 5, "cause": "changed", "want": null, "found": null}`
	)
	for name, test := range map[string]struct {
		items    string
		all, few string // the ids that are shown
	}{
		"pruned":       {done + "," + ignored, "1 2", ""},
		"under way":    {done + "," + running, "1 3", "3"},
		"edited":       {edited + "," + ignored, "4 2", "4"},
		"not its own":  {foreign, "5", "5"},
		"nothing else": {"", "", ""},
	} {
		d := differences(test.items)
		for flag, want := range map[string]string{"": test.all, "--ignore-deleted": test.few} {
			got := jobctl{}.run(t, append([]string{"--port", d.port, "journal", "diff"}, strings.Fields(flag)...)...)
			var ids []string
			for i, line := range strings.Split(strings.TrimSpace(got.out), "\n") {
				if i > 0 {
					ids = append(ids, strings.Fields(line)[1])
				}
			}
			code := 0
			if want != "" {
				code = 1
			}
			if strings.Join(ids, " ") != want || got.code != code {
				t.Errorf("%s %s: jobs %q, want %s; %+v", name, flag, ids, want, got)
			}
		}
		if asked := strings.Join(d.asked(), "\n"); !strings.Contains(asked, `journal-diff {"ignore_deleted":true}`) {
			t.Errorf("%s: the worker was not asked: %s", name, asked)
		}
	}
}

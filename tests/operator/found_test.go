package operator

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"jobd/tests/harness"
)

// What workers ran is found through their master: by target, exit code and words of the output, also after a
// restart; rows that wait are the table's.
func TestJobsAreFound(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fails(t, 2, 3)
	s.run(t, "a", 1)
	s.run(t, "a", 2)
	s.run(t, "b", 5)
	s.db.Insert(t, 7, "b", "manual")
	ask := func(kind, query string) (answers map[string]json.RawMessage) {
		var answer struct {
			Workers []struct {
				Name  string
				Data  json.RawMessage
				Error string
			}
		}
		client := harness.Dial(t, s.master.Addr)
		defer client.Close()
		client.Ask(t, kind, json.RawMessage(query)).Decode(t, &answer)
		answers = map[string]json.RawMessage{}
		for _, w := range answer.Workers {
			if w.Error != "" {
				t.Errorf("%s %s: %s says %s", kind, query, w.Name, w.Error)
			}
			answers[w.Name] = w.Data
		}
		return answers
	}
	jobs := func(query string) (found string) {
		for _, name := range []string{"node-1", "node-2"} {
			var page struct {
				Jobs []struct {
					Job            int64
					Status, Result string
				}
			}
			if err := json.Unmarshal(ask("jobs", query)[name], &page); err != nil {
				t.Fatal(err)
			}
			for _, job := range page.Jobs {
				found += fmt.Sprintf("%d %s %s ", job.Job, job.Status, job.Result)
			}
		}
		return found
	}
	for query, want := range map[string]string{
		`{}`: "2 done fail 1 done ok 5 done ok ", `{"targets":["b"]}`: "5 done ok ", `{"codes":[3]}`: "2 done fail ",
		`{"text":"breaks line"}`: "2 done fail ", `{"result":"ok","text":"a"}`: "1 done ok ",
		`{"since":4000000000000}`: "",
	} {
		harness.Until(t, func() string {
			if got := jobs(query); got != want {
				return fmt.Sprintf("%s: %s, want %s", query, got, want)
			}
			return ""
		})
	}
	var rates struct {
		All struct{ Started, Failed []int64 }
	}
	if err := json.Unmarshal(ask("rates", `{"span":"6h"}`)["node-1"], &rates); err != nil || len(rates.All.Started) != 360 {
		t.Fatalf("%+v, %v", rates, err)
	}
	if n := len(rates.All.Started); rates.All.Started[n-1]+rates.All.Started[n-2] != 2 || rates.All.Failed[n-1]+rates.All.Failed[n-2] != 1 {
		t.Errorf("in the last minutes: %v, failed %v", rates.All.Started[n-2:], rates.All.Failed[n-2:])
	}
	var rows struct {
		Rows []struct{ Job, Created int64 }
	}
	if err := json.Unmarshal(ask("rows", `{"status":"manual"}`)["node-2"], &rows); err != nil || len(rows.Rows) != 1 || rows.Rows[0].Job != 7 || rows.Rows[0].Created > time.Now().Unix() {
		t.Errorf("rows %+v, %v", rows, err)
	}
}

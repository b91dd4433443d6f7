package history

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store/storetest/must"
)

// Every kind that there is comes over the wire as it was.
func TestEventsComeOverTheWireAsTheyWere(t *testing.T) {
	t.Parallel()
	code := 7
	payloads := []journal.Payload{
		journal.Accepted{Target: "a", Manual: true, Token: "@t"},
		journal.Ignored{Reason: "why"},
		journal.Released{Reason: "why"},
		journal.Running{Attempt: 2, Runner: "r"},
		journal.Started{Pid: 1, StartTime: 2, BootID: "b"},
		journal.Signal{Signo: 15, By: "me"},
		journal.Done{Result: "fail", Code: &code, Stdout: journal.Output{Kept: []byte{0xff, 0, 'a'}, Size: 3}, Stderr: journal.Output{Size: 9}, Elapsed: 3_000_000, Token: "@t"},
		journal.Conflict{Found: &journal.Row{Target: "a", Status: "waiting", Owner: "o"}, Wanted: "done"},
		journal.SetAside{Wanted: "done", Reason: "locked", Token: "@t"},
		journal.Requeued{Reason: "the runner is gone", By: "on_crash", Token: "@t"},
		journal.Cancelled{By: "me", Runs: true, Grace: 10_000_000, Token: "@t"},
		journal.Retried{Target: "a", From: "done", To: "waiting", Result: "fail", Finished: 7, By: "me"},
		journal.Planned{Target: "a", From: journal.Plan{RunAt: 5, Schedule: "daily 02:30"}, To: journal.Again{RunAt: 9, PlannedAt: 9, Why: "schedule"}, Reason: "missed", By: "me"},
		journal.Replanned{Token: "@t", Schedule: "every 5m", Zone: "UTC", Again: &journal.Again{RunAt: 9, PlannedAt: 9, Why: "schedule"}, Note: "n"},
		journal.Opened{Name: "n", Version: "1", Pid: 3, BootID: "b", Targets: map[string]int{"a": 1}},
		journal.Closed{Reason: "why"},
		journal.Paused{Targets: []string{"a"}, By: "me"},
		journal.Continued{Targets: []string{"a"}, By: "me"},
		journal.TargetAdded{Target: "a", Concurrency: 1, By: "me"},
		journal.TargetRemoved{Target: "a", By: "me"},
		journal.ConcurrencySet{Target: "a", Concurrency: 4, By: "me"},
		journal.Marked{Mark: "m"},
		journal.Server{Server: "s", Before: "b", Mended: 3, Left: 4},
		journal.Runner{Instance: "r2", Before: "r1"},
		journal.Requested{Jobs: []int64{1, 2}, By: "me"},
		journal.Refused{Request: "add-target", About: "a", Reason: "no", By: "me"},
		journal.Reloaded{File: "/f", Digest: "00", Changed: []string{"a"}, By: "me"},
		journal.Reapplied{From: 1, To: 9, Rows: 2, By: "me", Notes: "n"},
		journal.Retention{First: 1, Last: 2, Seq: 9, Hash: "00", Reason: "old", Archive: "/a"},
		journal.Registered{Worker: "w", Targets: []string{"a"}, More: 2, By: "me", Times: 3},
		journal.Left{Worker: "w", Reason: "it stops", By: "me", Times: 3},
	}
	if len(payloads) != len(journal.Kinds()) {
		t.Fatalf("%d payloads for %d kinds", len(payloads), len(journal.Kinds()))
	}
	for i, payload := range payloads {
		want := Event{journal.Event{
			Seq: uint64(i + 1), Job: 5, Time: time.Date(2026, 11, 20, 1, 2, 3, 4000, time.UTC), Payload: payload, Hash: journal.Hash{byte(i)},
		}}
		encoded := must.Get(json.Marshal(want))(t)
		var got Event
		if err := json.Unmarshal(encoded, &got); err != nil {
			t.Errorf("%s: %v", payload.Kind(), err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", payload.Kind(), diff)
		}
		if payload.Kind() != journal.Kinds()[i] {
			t.Errorf("kind %d is %s, want %s", i, journal.Kinds()[i], payload.Kind())
		}
	}
}

func TestWrongEventsAreRefused(t *testing.T) {
	t.Parallel()
	const hash = `"hash":"5555555555555555555555555555555555555555555555555555555555555555"`
	for name, text := range map[string]string{
		"no object":       `[]`,
		"no hash":         `{"seq":1,"kind":"done","payload":{}}`,
		"no such kind":    `{"seq":1,"kind":"gone","payload":{},` + hash + `}`,
		"another payload": `{"seq":1,"kind":"done","payload":{"result":5},` + hash + `}`,
		"no number":       `{"seq":0,"kind":"done","payload":{},` + hash + `}`,
	} {
		var e Event
		if err := json.Unmarshal([]byte(text), &e); err == nil {
			t.Errorf("%s: taken as %+v", name, e)
		}
	}
}

package audit

import (
	"encoding/json"
	"testing"

	"jobd/tests/harness"
)

// Wrong requests are refused in the words that docs/protocol.md has for them.
func TestWrongJournalRequests(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	worker, _ := start(t, db, "node-1", "mail", 1, 1)
	client := harness.Dial(t, worker.Addr)
	const times = "'at', 'since' and 'until' must be times such as 2026-11-20T14:00:00Z"
	for name, test := range map[string]struct{ kind, data, want string }{
		"unknown kind":     {"journal-events", `{"kinds":["gone"]}`, "unknown kind of event 'gone'"},
		"job of a type":    {"journal-events", `{"job":"5"}`, `"5" is no whole number of 64 bits; allowed are numbers up to ±9007199254740991, and decimal strings beyond`},
		"last below 0":     {"journal-events", `{"last":-1}`, "'last' must not be below 0"},
		"since":            {"journal-events", `{"since":"yesterday"}`, times},
		"at":               {"journal-state", `{"at":"2026-13-01T00:00:00Z"}`, times},
		"unknown status":   {"journal-state", `{"status":"gone"}`, "unknown status 'gone'"},
		"no anchor":        {"journal-verify", `{"anchors":["5 abc"]}`, `anchors: line 1: "5 abc" is no anchor; allowed is a sequence number from 1 and, after a blank, a hash of 64 hexadecimal digits`},
		"no cursor":        {"journal-next", `{}`, "missing required field cursor"},
		"unknown cursor":   {"journal-next", `{"cursor":"x"}`, "unknown journal cursor"},
		"closing unknown":  {"journal-close", `{"cursor":"x"}`, "unknown journal cursor"},
		"ids of rows":      {"journal-rows", `{"ids":["5"]}`, "all ids must be numbers, got string"},
		"no ids":           {"journal-rows", `{}`, "ids must be array"},
		"reapply, no time": {"journal-reapply", `{"since":"x"}`, times},
	} {
		t.Run(name, func(t *testing.T) {
			if answer := client.Ask(t, test.kind, json.RawMessage(test.data)); answer.Error != test.want {
				t.Errorf("%s %s: %q, want %q", test.kind, test.data, answer.Error, test.want)
			}
		})
	}
}

// A stream is its connection's own, and no peer has all that a worker may have.
func TestCursorsBelongToTheirConnection(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	worker, _ := start(t, db, "node-1", "mail", 1, 3)
	owner, other := harness.Dial(t, worker.Addr), harness.Dial(t, worker.Addr)
	var opened struct{ Name, Cursor string }
	owner.Ask(t, "journal-events", nil).Decode(t, &opened)
	if opened.Name != "node-1" {
		t.Errorf("the worker's name is %q", opened.Name)
	}
	cursor := map[string]string{"cursor": opened.Cursor}
	if answer := other.Ask(t, "journal-next", cursor); answer.Error != "unknown journal cursor" {
		t.Errorf("somebody else's stream: %s %q", answer.Data, answer.Error)
	}
	var page struct {
		Items []json.RawMessage
		More  bool
	}
	owner.Ask(t, "journal-next", cursor).Decode(t, &page)
	if len(page.Items) < 13 || page.More {
		t.Errorf("%d events, more: %v", len(page.Items), page.More)
	}
	for range 64 {
		owner.Ask(t, "journal-events", nil).Decode(t, &opened)
	}
	if answer := other.Ask(t, "journal-events", nil); answer.Error != "" {
		t.Errorf("one peer keeps others out: %s %q", answer.Data, answer.Error)
	}
}

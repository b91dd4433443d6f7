package main

import (
	"encoding/json"
	"strings"
	"testing"

	"jobd/cmd/internal/history"
	"jobd/net/api"
)

// Where nothing is found of a target that nobody serves, it is perhaps misspelt, which is said.
func TestATargetThatNobodyServesIsTold(t *testing.T) {
	t.Parallel()
	answers := map[string]any{
		"journal-anchor": history.AnchorAnswer{Seq: 4, Hash: strings.Repeat("0f", 32)},
		"journal-events": api.Opened{Name: "node-1", Cursor: "c", Understood: []string{"result", "last_line"}}, "journal-next": history.Page{}, "journal-close": "ok",
		"status":  json.RawMessage(`{"targets": {"mail": {}}, "memoryUsage": {}}`),
		"running": json.RawMessage(`{"jobs": [], "total": 0}`),
	}
	worker := startDaemon(t, "", answers)
	const mial = "jobctl: target 'mial': the worker does not serve it; the nearest known one is mail\n"
	for name, args := range map[string][]string{
		"failed": {"failed", "--output", "json"}, "groups": {"failed", "--group", "--output", "json"}, "retry": {"retry", "--failed", "--yes", "--output", "json"}, "ps": {"ps", "--output", "json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			none := map[bool]string{true: `{"jobs":[],"total":0}` + "\n"}[name == "ps"]
			jobctl{}.expect(t, worker, output{err: mial, out: none}, append(args, "--target", "mial")...)
			jobctl{}.expect(t, worker, output{out: none}, append(args, "--target", "mail")...)
			jobctl{}.expect(t, worker, output{out: none, err: "jobctl: target 'x': the worker does not serve it\n"}, append(args, "--target", "x")...)
		})
	}
}

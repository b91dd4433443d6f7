package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// Ids that a number of JavaScript's can't hold, and negative ones, are ids everywhere: in a claim, by hand, in signals, in
// what the journal hands out, through the master as through the worker.
func TestIDsOfAllSixtyFourBits(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	db.Exec(t, "ALTER TABLE jobs MODIFY id BIGINT NOT NULL AUTO_INCREMENT")
	const waiting, byHand, negative, least = int64(9007199254740993), int64(9223372036854775807), int64(-5), int64(-9223372036854775808)
	db.Insert(t, waiting, "mail", "waiting")
	db.Insert(t, negative, "mail", "waiting")
	db.Insert(t, byHand, "mail", "manual")
	db.Insert(t, least, "mail", "manual")
	main := harness.StartMaster(t)
	s := db.Worker(t, "node-1", "/bin/sh -c 'echo job $0' {id}", map[string]int{"mail": 2}).
		With(harness.Settings{"launcher_split": "shell"}, harness.MasterOf(main))
	worker := s.StartWorker(t)
	db.AwaitDone(t, waiting)
	db.AwaitDone(t, negative)

	client := harness.Dial(t, worker.Addr)
	said := func(answer string, words ...string) {
		t.Helper()
		for _, word := range words {
			if !strings.Contains(answer, word) {
				t.Errorf("%s: no %s", answer, word)
			}
		}
	}
	ids := fmt.Sprintf(`{"ids":["%d",-6]}`, byHand)
	said(string(client.Ask(t, "run-manual", json.RawMessage(ids)).Data), fmt.Sprintf(`"%d":{"result":"ok"`, byHand), `"-6":"job -6 not found"`, fmt.Sprintf("job %d\\n", byHand))
	harness.AwaitWorkers(t, main, "", 1)
	jobs := fmt.Sprintf(`{"jobs":[{"id":"%d","target":"mail"}]}`, least)
	said(string(harness.Dial(t, main.Addr).Ask(t, "run-manual", json.RawMessage(jobs)).Data), fmt.Sprintf(`"%d":{"result":"ok"`, least))
	said(string(client.Ask(t, "send-signal", json.RawMessage(fmt.Sprintf(`{"jobs":{"%d":0,"-5":0}}`, byHand))).Data), fmt.Sprintf(`"%d":false`, byHand), `"-5":false`)
	said(string(client.Ask(t, "journal-rows", json.RawMessage(ids)).Data), fmt.Sprintf(`"job":"%d"`, byHand))

	var opened struct{ Cursor string }
	for request, word := range map[string]string{
		fmt.Sprintf(`{"job":"%d"}`, waiting): fmt.Sprintf(`"job":"%d","kind":"done"`, waiting),
		`{"job":-5}`:                         `"job":-5,"kind":"done"`,
	} {
		client.Ask(t, "journal-events", json.RawMessage(request)).Decode(t, &opened)
		said(string(client.Ask(t, "journal-next", map[string]string{"cursor": opened.Cursor}).Data), word)
	}
	client.Ask(t, "journal-state", nil).Decode(t, &opened)
	said(string(client.Ask(t, "journal-next", map[string]string{"cursor": opened.Cursor}).Data), fmt.Sprintf(`"job":"%d"`, waiting), `"job":-5`, fmt.Sprintf(`"job":"%d"`, least))
	expect(t, 0, []string{fmt.Sprintf(`"job":"%d"`, waiting)}, worker.Addr, "--output", "json", "journal", "log", "--job", fmt.Sprint(waiting))
}

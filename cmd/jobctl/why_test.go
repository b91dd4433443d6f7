package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jobnet "jobd/net"
	"jobd/net/api"
)

const explainedJobs = `{"name":"node-1","mark":"aaaa","targets":["mail"],"jobs":[
  {"job":5,"row":{"target":"mail","status":"waiting","stdout":{"size":0},"stderr":{"size":0}},"ahead":{"rows":40},
   "target":{"name":"mail","concurrency":2,"running":2}},
  {"job":6,"row":{"target":"mail","status":"done","finished":1795168923,"started":1795168920,"result":"fail","code":3,
   "stdout":{"size":0},"stderr":{"size":8,"tail":"no mail\n"}}},
  {"job":7}]}`

func TestWhy(t *testing.T) {
	t.Parallel()
	worker := startDaemon(t, "", map[string]any{"status": json.RawMessage(workerAnswer), "explain": json.RawMessage(explainedJobs)})
	jobctl{}.expect(t, worker, output{
		4, "job 5 waits behind 40 jobs of its target: all 2 slots of target mail are in use, on node-1\n" +
			"job 6 failed with exit code 3 at 10:02, after 3s: no mail\n" +
			"job 7: the table has no such row\n", "",
	}, "why", "5", "mail:6", "7", "5")
	jobctl{}.expect(t, worker, output{
		0, `{"job":5,"reason":"waiting","sentence":"job 5 waits behind 40 jobs of its target: all 2 slots of target mail are in use, on node-1"}` + "\n", "",
	}, "--output=json", "why", "5")
	jobctl{}.expect(t, worker, output{4, "job 6 is one of target mail, not of pics\n", ""}, "why", "pics:6")
	want := `explain {"ids":[5,6,7],"output":true}`
	if asked := worker.asked(); asked[1] != want {
		t.Errorf("asked %q, want %s", asked, want)
	}
}

// Each worker's answer counts; who can't answer is named, and hides nobody's.
func TestWhyOfAFleet(t *testing.T) {
	t.Parallel()
	unknown := "unknown request type: 'explain'"
	relayed := fmt.Sprintf(`{"workers":[{"name":"old","address":"10.0.0.3:1","error":%q},{"name":"node-2","address":"10.0.0.2:1","error":"no answer within 8s"},
		{"name":"node-1","address":"10.0.0.1:1","data":%s}]}`, unknown, explainedJobs)
	master := startDaemon(t, "", map[string]any{"status": json.RawMessage(masterAnswer), "explain": json.RawMessage(relayed)})
	got := jobctl{}.run(t, "--port", master.port, "--master", "why", "5")
	if got.code != 0 || got.out != "job 5 waits behind 40 jobs of its target: all 2 slots of target mail are in use, on node-1; "+
		"old perhaps serves it, and can't tell; node-2 perhaps serves it, and does not answer\n" {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.err, "worker 'node-2': no answer within 8s") || !strings.Contains(got.err, "worker 'old': it can't tell, because it is an older jobd, or the original") {
		t.Errorf("%s", got.err)
	}
}

// What only the server can tell is asked of one worker, and only where nothing else explains the
// job.
func TestWhyProbes(t *testing.T) {
	t.Parallel()
	answer := func(probe string) string {
		return `{"name":"node-1","jobs":[{"job":5,"row":{"target":"mail","status":"waiting","stdout":{"size":0},"stderr":{"size":0}},"ahead":{"rows":0},
			"target":{"name":"mail","concurrency":2,"room":2,"looks":true}` + probe + `}]}`
	}
	worker := startDaemon(t, "", map[string]any{"status": json.RawMessage(workerAnswer), "explain": json.RawMessage(answer(`,"probe":{"held":true}`))})
	jobctl{}.expect(t, worker, output{0, "job 5 waits: somebody else has locked its row\n", ""}, "why", "5")
	worker = startDaemon(t, "", map[string]any{"status": json.RawMessage(workerAnswer), "explain": json.RawMessage(answer(""))})
	jobctl{}.expect(t, worker, output{0, "job 5 is the next of its target mail, and node-1 is about to claim it\n", ""}, "why", "5")
	if asked := worker.asked(); len(asked) != 3 || asked[2] != `explain {"ids":[5],"probe":true}` {
		t.Errorf("asked %q", asked)
	}
	master := startDaemon(t, "", map[string]any{"status": json.RawMessage(masterAnswer), "explain": json.RawMessage(
		`{"workers":[{"name":"node-1","address":"10.0.0.1:1","data":` + answer("") + `}]}`)})
	jobctl{}.expect(t, master, output{0, "job 5 is the next of its target mail, and node-1 is about to claim it\n", ""}, "--master", "why", "5")
	if asked := master.asked(); len(asked) != 3 || asked[2] != `explain {"ids":[5],"probe":true,"worker":"10.0.0.1:1"}` {
		t.Errorf("asked %q", asked)
	}
}

func TestWhyOfWrongWords(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"why":       "why: needs at least one job, as ID or TARGET:ID",
		"why x":     `why: job "x" is not allowed; allowed is ID or TARGET:ID, where ID is a whole number of 64 bits other than 0`,
		"why :5":    `why: job ":5" is not allowed`,
		"why a:0":   `why: job "a:0" is not allowed`,
		"show":      "show: needs a job, as ID or TARGET:ID",
		"show 5 6":  `show: takes one job, got ["5" "6"]`,
		"show a:b:": `show: job "a:b:" is not allowed`,
	} {
		if got := (jobctl{}).run(t, strings.Fields(args)...); got.code != 2 || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// A peer that does not know the question says so itself.
func TestWhyOfAnOldWorker(t *testing.T) {
	t.Parallel()
	old := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(workerAnswer), "explain": jobnet.Refusal("unknown request type: 'explain'").With(jobnet.CodeUnknown),
	})
	for _, command := range []string{"why", "show"} {
		got := jobctl{}.run(t, "--port", old.port, command, "5")
		if got.code != 1 || got.out != "" || !strings.Contains(got.err, "it can't tell, because it is an older jobd, or the original") {
			t.Errorf("%s: %+v", command, got)
		}
	}
}

// More jobs than one request takes are asked about in several.
func TestWhyOfManyJobs(t *testing.T) {
	t.Parallel()
	worker := startDaemon(t, "", map[string]any{"status": json.RawMessage(workerAnswer), "explain": json.RawMessage(`{"name":"node-1","jobs":[]}`)})
	args := []string{"--port", worker.port, "why"}
	for id := range api.MostExplained + 1 {
		args = append(args, fmt.Sprint(id+1))
	}
	got := jobctl{}.run(t, args...)
	if lines := strings.Count(got.out, "\n"); lines != api.MostExplained+1 || len(worker.asked()) != 3 {
		t.Errorf("%d lines, %d questions: %s", lines, len(worker.asked()), got.err)
	}
}

package main

import (
	"encoding/json"
	"testing"

	jobnet "jobd/net"
)

// What nobody serves is told; what a daemon refuses stands as it says it.
func TestWhatNobodyServesIsTold(t *testing.T) {
	t.Parallel()
	status := json.RawMessage(`{"targets": {"mail": {}, "video/convert": {}}, "memoryUsage": {}}`)
	worker := startDaemon(t, "", map[string]any{
		"status": status, "poll": jobnet.Refusal("target 'mial' not found"), "pause": jobnet.Refusal("target 'x' not found"),
		"remove-target": jobnet.Refusal("target 'vidoe/convert' not found"), "set-target-concurrency": jobnet.Refusal("no, because of target 'mial'"),
	})
	const refused = "jobctl: 127.0.0.1:PORT: "
	jobctl{}.expect(t, worker, output{code: 1, err: refused + "target 'mial' not found\n"}, "poll", "mail", "mial")
	jobctl{}.expect(t, worker, output{code: 1, err: refused + "target 'x' not found\n"}, "pause", "x")
	jobctl{}.expect(t, worker, output{code: 1, err: refused + "target 'vidoe/convert' not found\n"}, "remove-target", "vidoe/convert")
	jobctl{}.expect(t, worker, output{code: 1, err: refused + "no, because of target 'mial'\n"}, "set-target-concurrency", "mial", "1")
	master := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(`{"workers": [{"name": "node-1", "targets": ["mail"]}], "memoryUsage": {}}`),
		"poke":   json.RawMessage(`{"result": "ok", "workers": 1, "unserved": ["mial", "x"]}`),
		"pause":  json.RawMessage(`{"result": "ok", "workers": 1, "unserved": ["mial", "x"]}`),
	})
	jobctl{}.expect(t, master, output{out: "ok\n", err: "jobctl: target 'mial': no worker serves it now; the poke is kept until one does\n" +
		"jobctl: target 'x': no worker serves it now; the poke is kept until one does\n"}, "--master", "poke", "mial", "x")
	jobctl{}.expect(t, master, output{code: 1, out: "ok\n", err: "jobctl: target 'mial': no worker serves it\njobctl: target 'x': no worker serves it\n"}, "--master", "pause", "mial", "x")
}

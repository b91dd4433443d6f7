package main

import (
	"encoding/json"
	"testing"

	jobnet "jobd/net"
)

// Which target was probably meant is said behind what the daemon says.
func TestNearestTargets(t *testing.T) {
	t.Parallel()
	status := json.RawMessage(`{"targets": {"mail": {}, "video/convert": {}}, "memoryUsage": {}}`)
	worker := startDaemon(t, "", map[string]any{
		"status": status, "poll": jobnet.Refusal("target 'mial' not found"), "pause": jobnet.Refusal("target 'x' not found"),
		"remove-target": jobnet.Refusal("target 'vidoe/convert' not found"), "set-target-concurrency": jobnet.Refusal("no, because of target 'mial'"),
	})
	const refused = "jobctl: 127.0.0.1:PORT: "
	jobctl{}.expect(t, worker, output{code: 1, err: refused + "target 'mial' not found; the nearest known one is mail\n"}, "poll", "mail", "mial")
	jobctl{}.expect(t, worker, output{code: 1, err: refused + "target 'x' not found\n"}, "pause", "x")
	jobctl{}.expect(t, worker, output{code: 1, err: refused + "target 'vidoe/convert' not found; the nearest known one is video/convert\n"}, "remove-target", "vidoe/convert")
	jobctl{}.expect(t, worker, output{code: 1, err: refused + "no, because of target 'mial'\n"}, "set-target-concurrency", "mial", "1")
	silent := startDaemon(t, "", map[string]any{"status": jobnet.Refusal("no"), "poll": jobnet.Refusal("target 'mial' not found")})
	jobctl{}.expect(t, silent, output{code: 1, err: refused + "target 'mial' not found\n"}, "poll", "mial")

	master := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(`{"workers": [{"name": "node-1", "targets": ["mail"]}], "memoryUsage": {}}`),
		"poke":   json.RawMessage(`{"result": "ok", "workers": 1, "unserved": ["mial", "x"]}`),
		"pause":  json.RawMessage(`{"result": "ok", "workers": 1, "unserved": ["mial", "x"]}`),
	})
	jobctl{}.expect(t, master, output{out: "ok\n", err: "jobctl: target 'mial': no worker serves it now; the poke is kept until one does; the nearest known one is mail\n" +
		"jobctl: target 'x': no worker serves it now; the poke is kept until one does\n"}, "--master", "poke", "mial", "x")
	jobctl{}.expect(t, master, output{code: 1, out: "ok\n", err: "jobctl: target 'mial': no worker serves it; the nearest known one is mail\njobctl: target 'x': no worker serves it\n"}, "--master", "pause", "mial", "x")
}

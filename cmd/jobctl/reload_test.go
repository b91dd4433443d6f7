package main

import (
	"context"
	"encoding/json"
	"testing"

	jobnet "jobd/net"
)

// Through a master each worker reads its file, and says what has changed or why nothing has.
func TestReloadOfAllWorkers(t *testing.T) {
	t.Parallel()
	port := listen(t, jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{
		"status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			return json.RawMessage(`{"workers": [
				{"name": "w1", "remoteAddr": "a", "remotePort": 1, "targets": ["mail"], "workerStatus": {"targets": {"mail": {}}}},
				{"name": "w2", "remoteAddr": "a", "remotePort": 2, "targets": ["mail"], "workerStatus": {"targets": {"mail": {}}}}], "memoryUsage": {}}`), nil
		},
		"reload": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			if worker, _ := request.Fields().Text("worker"); worker == "a:2" {
				return json.RawMessage(`{"workers": [{"name": "w2", "error": "not reloaded: /etc/jobd.conf:14: no"}]}`), nil
			}
			return json.RawMessage(`{"workers": [{"name": "w1", "data": {"file": "/etc/jobd.conf", "changed": ["port", "targets.mail"],
				"later": ["port"], "before": {"mail": {"concurrency": 2}}, "after": {"mail": {"concurrency": 4}}}}]}`), nil
		},
	}})
	got := jobctl{}.run(t, "--master", "--port", port, "reload")
	want := output{
		1, `worker w1: port, targets.mail changed in /etc/jobd.conf
  target mail: 2 slots → 4, as the file says
  from its next start on: port (jobctl restart)
`, "jobctl: worker w2: not reloaded: /etc/jobd.conf:14: no\n",
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

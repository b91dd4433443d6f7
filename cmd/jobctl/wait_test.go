package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"jobd/cmd/internal/exit"
	jobnet "jobd/net"
)

// A wait that begins while the table is away goes on when it is back, and says once why it waits.
func TestAWaitBegunInAnOutage(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	away := jobnet.Refusal("the database could not be reached")
	port := listen(t, jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{
		"status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			return json.RawMessage(workerAnswer), nil
		},
		"journal-rows": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			if asked.Add(1) < 3 {
				return nil, away
			}
			return json.RawMessage(`{"name": "node-1", "rows": [{"job": 7, "target": "mail", "status": "done", "result": "ok"}]}`), nil
		},
	}})
	got := jobctl{}.run(t, "--port", port, "wait", "7")
	if got.code != exit.Success || strings.Count(got.err, string(away)) != 1 || !strings.Contains(got.err, "waiting until this is over") {
		t.Errorf("%+v, after %d questions", got, asked.Load())
	}
}

// What waiting does not mend ends it at once; what it would mend, with the time that was given.
func TestWhatAWaitDoesNotOutlast(t *testing.T) {
	t.Parallel()
	status, rows := json.RawMessage(workerAnswer), json.RawMessage(`{"name": "node-1", "rows": []}`)
	for name, test := range map[string]struct {
		port string
		args string
		code int
		want string
	}{
		"no such job":    {startDaemon(t, "", map[string]any{"status": status, "journal-rows": rows}).port, "", exit.NoJob, "job 7: the table has no such row"},
		"an older peer":  {startDaemon(t, "", map[string]any{"status": status}).port, "", exit.Failure, "older jobd"},
		"a password":     {startDaemon(t, "s3cret", map[string]any{"status": status}).port, "", exit.Failure, "a password or token is needed"},
		"no master":      {startDaemon(t, "", map[string]any{"status": status}).port, "--master ", exit.Failure, "this is a worker, not a master"},
		"nobody is here": {closedPort(t), "--timeout 300ms ", exit.Late, "connection refused; waiting until this is over"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			got := jobctl{}.run(t, strings.Fields(test.args+"--port "+test.port+" wait 7")...)
			if got.code != test.code || !strings.Contains(got.err, test.want) {
				t.Errorf("after %v: %+v", time.Since(begun), got)
			}
		})
	}
}

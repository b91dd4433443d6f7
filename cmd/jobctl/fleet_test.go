package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	jobnet "jobd/net"
)

// fleetOf is a master of two workers, which restart and take over concurrencies as they are told.
// What they were told stands in the text that it gives.
func fleetOf(t *testing.T, refuses string) (port string, told func() string) {
	var mu sync.Mutex
	var requests []string
	run := map[string]int{"w1": 1, "w2": 1} // how often each was started
	slots := map[string]int{"w1": 2, "w2": 5}
	status := func(name string, at int) string {
		return fmt.Sprintf(`{"name": %q, "remoteAddr": "a", "remotePort": %d, "targets": ["mail"], "workerStatus":
			{"pid": %d, "startedAt": %d, "version": "v%d", "targets": {"mail": {"concurrency": %d}}}}`, name, at, 100*at+run[name], run[name], run[name], slots[name])
	}
	answer := func(typ string, act func(name string, data jobnet.Fields) string) jobnet.Handler {
		return func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			address, _ := request.Fields().Text("worker")
			name := map[string]string{"a:1": "w1", "a:2": "w2"}[address]
			requests = append(requests, typ+" "+name)
			if name == refuses {
				return json.RawMessage(fmt.Sprintf(`{"workers": [{"name": %q, "error": "no, thanks"}]}`, name)), nil
			}
			return json.RawMessage(fmt.Sprintf(`{"workers": [{"name": %q, "data": %s}]}`, name, act(name, request.Fields()))), nil
		}
	}
	port = listen(t, jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{
		"status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			return json.RawMessage(`{"workers": [` + status("w1", 1) + `, ` + status("w2", 2) + `], "memoryUsage": {}}`), nil
		},
		"restart": answer("restart", func(name string, _ jobnet.Fields) string {
			run[name]++
			slots[name] = 2
			return `"ok"`
		}),
		"set-target-concurrency": answer("set", func(name string, data jobnet.Fields) string {
			asked := &jobnet.Reader{Fields: data}
			slots[name] = int(asked.Int("concurrency"))
			return `"ok"`
		}),
	}})
	return port, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(requests, ", ")
	}
}

// All workers of a master restart one after the other, after a question; the first one that says no
// ends it, and the others are as they were.
func TestRestartAll(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args, refuses string
		want          output
		told          string
	}{
		{"restart", "", output{2, "", "jobctl: restart: give --all to restart all workers of the master, one after the other; for one of them leave --master away, and give its --host and --port\n"}, ""},
		{"restart --all", "", output{2, "", "jobctl: 2 workers would be restarted, one after the other. There is no terminal to ask at: give --yes to go on, or --dry-run to see them\n"}, ""},
		{"restart --all --dry-run --output json", "", output{0, "{\"pid\":101,\"version\":\"v1\",\"worker\":\"w1\"}\n{\"pid\":201,\"version\":\"v1\",\"worker\":\"w2\"}\n", ""}, ""},
		{"restart --all --yes", "", output{0, "worker w1: process 102 serves again, version v2\nworker w2: process 202 serves again, version v2\n  target mail: 5 slots → 2, as the file says\n", ""}, "restart w1, restart w2"},
		{"restart --all --yes", "w1", output{1, "", "jobctl: worker w1: no, thanks\njobctl: left as they are: w2\n"}, "restart w1"},
		{"restart --all --yes --output json", "", output{0, `{"workers":{"w1":{"pid":102,"startedAt":2,"version":"v2"},"w2":{"pid":202,"startedAt":2,"version":"v2"}}}` + "\n", ""}, "restart w1, restart w2"},
	} {
		port, told := fleetOf(t, test.refuses)
		if got := (jobctl{}).run(t, append([]string{"--master", "--port", port}, strings.Fields(test.args)...)...); got != test.want || told() != test.told {
			t.Errorf("%s (%s refuses):\ngot  %+v, %s\nwant %+v, %s", test.args, test.refuses, got, told(), test.want, test.told)
		}
	}
	if got := (jobctl{}).run(t, "restart", "--all"); got.code != 2 || !strings.Contains(got.err, "needs --master") {
		t.Errorf("got %+v", got)
	}
}

// The concurrency of a target is set on each worker that serves it, after a question. One that says no
// keeps the others from nothing.
func TestConcurrencyOfAll(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args, refuses string
		want          output
		told          string
	}{
		{"mail 20", "", output{2, "", "jobctl: Target mail would have 20 slots on each of 2 workers, 40 in all. There is no terminal to ask at: give --yes to go on, or --dry-run to see them\n"}, ""},
		{"mail 20 --dry-run", "", output{0, "WORKER  TARGET  SLOTS  THEN\nw1      mail    2      20\nw2      mail    5      20\n", ""}, ""},
		{"mail 20 --yes", "", output{0, "worker w1: target mail has 20 slots\nworker w2: target mail has 20 slots\n", ""}, "set w1, set w2"},
		{"mail 20 --yes", "w1", output{1, "worker w2: target mail has 20 slots\n", "jobctl: worker w1: no, thanks\n"}, "set w1, set w2"},
		{"fax 20 --yes", "", output{1, "", "jobctl: target 'fax': no worker serves it\n"}, ""},
		{"mail 0 --yes", "", output{2, "", "jobctl: set-target-concurrency: concurrency \"0\" is not allowed; allowed is a whole number of at least 1\n"}, ""},
	} {
		port, told := fleetOf(t, test.refuses)
		args := append([]string{"--master", "--port", port, "set-target-concurrency"}, strings.Fields(test.args)...)
		if got := (jobctl{}).run(t, args...); got != test.want || told() != test.told {
			t.Errorf("%s (%s refuses):\ngot  %+v, %s\nwant %+v, %s", test.args, test.refuses, got, told(), test.want, test.told)
		}
	}
}

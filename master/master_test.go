package master

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	address, _, _ := serveMaster(t, Config{}, "")
	client := connect(t, address, jobnet.LinkConfig{})
	tests := []struct{ typ, data, want string }{
		{"register-worker", `null`, "targets must be array"},
		{"register-worker", `{"name":"w"}`, "targets must be array"},
		{"register-worker", `{"name":"w","targets":[]}`, "targets are empty"},
		{"register-worker", `{"name":"w","targets":[1]}`, "all targets must be strings, number given"},
		{"register-worker", `{"targets":["q"]}`, "name is missing or invalid"},
		{"register-worker", `{"targets":["q"],"name":""}`, "name is missing or invalid"},
		{"register-worker", `{"targets":["q"],"name":5}`, "name is missing or invalid"},
		{"poke", `{}`, "targets must be array"},
		{"poke", `{"targets":[]}`, "targets are empty"},
		{"poke", `{"targets":[null]}`, "all targets must be strings, object given"},
		{"pause", `{"targets":"a"}`, "targets must be array"},
		{"continue", `{"targets":[]}`, "targets are empty"},
		{"run-manual", `null`, "jobs must be array"},
		{"run-manual", `{"jobs":{}}`, "jobs must be array"},
		{"run-manual", `{"jobs":[5]}`, "missing required field id"},
		{"run-manual", `{"jobs":[{"id":4}]}`, "missing required field target"},
		{"run-manual", `{"jobs":[{"id":"4","target":"a"}]}`, "'id' must be integer"},
		{"run-manual", `{"jobs":[{"id":4,"target":7}]}`, "'target' must be string"},
		{"send-signal", `{}`, "jobs must be array"},
		{"send-signal", `{"jobs":[{"id":4,"target":"a"}]}`, "missing required field signal"},
		{"send-signal", `{"jobs":[{"id":4,"signal":"TERM","target":"a"}]}`, "'signal' must be integer"},
	}
	for _, test := range tests {
		t.Run(test.typ+" "+test.data, func(t *testing.T) {
			t.Parallel()
			_, err := client.Request(within(t), test.typ, json.RawMessage(test.data))
			var remote *jobnet.RemoteError
			if !errors.As(err, &remote) || remote.Text != test.want {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

// bubble is a master in a synctest bubble, whose workers are at the other ends of pipes.
type bubble struct {
	*Master
	t      *testing.T
	client *jobnet.Link // who asks
}

func newBubble(t *testing.T, config Config) bubble {
	m := New(config)
	start(t, m.Run)
	ours, _ := net.Pipe()
	return bubble{m, t, jobnet.NewLink(ours, jobnet.LinkConfig{})}
}

// join registers a worker; it tells what it is polled for, and when.
func (b bubble) join(name string, handlers map[string]jobnet.Handler, targets ...string) *jobnet.Link {
	b.t.Helper()
	return b.joinAs(api.Registration{Name: name, Targets: targets}, handlers)
}

// joinAs registers a worker that says more of itself.
func (b bubble) joinAs(as api.Registration, handlers map[string]jobnet.Handler) *jobnet.Link {
	b.t.Helper()
	ours, theirs := net.Pipe()
	accepted, worker := jobnet.NewLink(ours, jobnet.LinkConfig{Handlers: b.Handlers()}), jobnet.NewLink(theirs, jobnet.LinkConfig{Handlers: handlers})
	start(b.t, accepted.Run)
	start(b.t, worker.Run)
	ask(b.t, worker, "register-worker", as)
	return worker
}

// do has the master handle a request, and gives its answer as JSON, or the error's text.
func (b bubble) do(typ, data string) string {
	b.t.Helper()
	answer, err := b.Handlers()[typ](b.t.Context(), b.client, jobnet.Request{From: anybody, Type: typ, Data: json.RawMessage(data)})
	if err != nil {
		return err.Error()
	}
	text := must.Get(json.Marshal(answer))(b.t)
	return string(text)
}

// polls notes the polls of one worker.
type polls struct {
	mu   sync.Mutex
	from time.Time
	got  []string // "seconds: targets"
}

func newPolls() *polls { return &polls{from: time.Now()} }

func (p *polls) handlers() map[string]jobnet.Handler {
	return map[string]jobnet.Handler{"poll": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
		asked, err := api.Poll.Read(request.From, request.Fields())
		p.mu.Lock()
		defer p.mu.Unlock()
		p.got = append(p.got, fmt.Sprintf("%v: %s", time.Since(p.from), strings.Join(asked.Targets, " ")))
		return "ok", err
	}}
}

func (p *polls) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	check.Elements(t, p.got, want, "polled for")
}

func TestPokesAreGathered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{PokeThrottle: 500 * time.Millisecond})
		one, two := newPolls(), newPolls()
		b.join("one", one.handlers(), "a", "b")
		b.join("two", two.handlers(), "b", "c")
		synctest.Wait()
		b.do("poke", `{"targets":["a"]}`)
		one.expect(t, "0s: a")
		b.do("poke", `{"targets":["b"]}`)
		time.Sleep(100 * time.Millisecond) // the bubble's clock
		b.do("poke", `{"targets":["b","a","c"]}`)
		one.expect(t, "0s: a")
		time.Sleep(time.Second)
		b.do("poke", `{"targets":["c"]}`)
		one.expect(t, "0s: a", "500ms: a b")
		two.expect(t, "500ms: b c", "1.1s: c")
	})
}

// A poll that a worker took with it when it broke off is made up for.
func TestLostPollIsMadeUpFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{})
		b.join("one", map[string]jobnet.Handler{"poll": func(_ context.Context, link *jobnet.Link, _ jobnet.Request) (any, error) {
			return nil, link.Close()
		}}, "a")
		b.do("poke", `{"targets":["a"]}`)
		synctest.Wait()
		again := newPolls()
		b.join("one", again.handlers(), "a")
		again.expect(t, "0s: a")
	})
}

// A worker gets one poll at a time, however often it is poked.
func TestSlowWorkerGetsOnePollAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{})
		var polled []string
		b.join("slow", map[string]jobnet.Handler{"poll": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			request.Proceed()
			polled = append(polled, string(request.Data))
			time.Sleep(time.Second)
			return "ok", nil
		}}, "a", "b")
		for range 1000 {
			b.do("poke", `{"targets":["a"]}`)
			synctest.Wait()
		}
		b.do("poke", `{"targets":["b"]}`)
		time.Sleep(time.Minute)
		synctest.Wait()
		check.Elements(t, polled, []string{`{"targets":["a"]}`, `{"targets":["a","b"]}`}, "polled")
	})
}

// Pitfall 36: a worker that answers no ping is dropped.
func TestPitfall36DeadWorkerIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{PingInterval: time.Second})
		alive := newPolls()
		b.join("alive", alive.handlers(), "a")
		ours, theirs := net.Pipe() // nobody reads here what is pinged
		defer theirs.Close()
		accepted := jobnet.NewLink(ours, jobnet.LinkConfig{Handlers: b.Handlers()})
		start(t, accepted.Run)
		must.Get(theirs.Write([]byte(`[0,{"no":1,"type":"register-worker","data":{"targets":["a"],"name":"dead"}}]` + "\x04")))(t)
		synctest.Wait()
		must.Equal(t, len(b.registry.all()), 2, "workers")
		time.Sleep(10 * time.Second)
		if workers := b.registry.all(); len(workers) != 1 || workers[0].name() != "alive" {
			t.Errorf("%d workers are left", len(workers))
		}
	})
}

// hang never answers.
func hang(ctx context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
	request.Proceed()
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestWorkerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{PingInterval: time.Hour})
		b.join("hung", map[string]jobnet.Handler{"status": hang, "pause": hang, "send-signal": hang}, "a")
		b.join("good", map[string]jobnet.Handler{
			"status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
				return json.RawMessage(`{"targets":{}}`), nil
			},
			"pause": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return "ok", nil },
			"send-signal": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
				return map[string]bool{"2": true}, nil
			},
		}, "a", "b")
		begun := time.Now()
		expect(t, json.RawMessage(b.do("status", `{"poll_workers":true}`)),
			`{"workers":[{"name":"hung","workerStatusError":"no answer within 5s","workerStatus":null},{"name":"good","workerStatus":{"targets":{}}}]}`)
		check.Equal(t, time.Since(begun), answerTimeout, "status took")
		check.Equal(t, b.do("pause", `{"targets":["b","nobody"]}`), `"ok"`, "pause of what only the good one serves")
		check.Equal(t, b.do("pause", `{}`), "worker 'hung': no answer within 5s", "pause")
		expect(t, json.RawMessage(b.do("send-signal", `{"jobs":[{"id":1,"signal":15,"target":"a"},{"id":2,"signal":15,"target":"a"},{"id":3,"signal":9,"target":"x"}]}`)),
			`{"1":false,"2":true,"errors":{"1":"worker 'hung': no answer within 5s","2":null,"3":"worker serving target 'x' not found"}}`)
	})
}

// Many workers are asked, so many at once, and however many of them are silent, the client hears in
// time what all others say.
func TestManyWorkersOfWhichManyAreSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{PingInterval: time.Hour})
		var now, most, all atomic.Int64
		good := map[string]jobnet.Handler{"status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			all.Add(1)
			return json.RawMessage(`{"targets":{}}`), nil
		}}
		const silent, others = fanOut + 100, fanOut + 200
		for i := range silent {
			b.join(fmt.Sprint("silent", i), map[string]jobnet.Handler{"status": hang}, "a")
		}
		for i := range others {
			b.join(fmt.Sprint("good", i), good, "a")
		}
		begun := time.Now()
		var status api.FleetStatus[json.RawMessage]
		must.Do(t, json.Unmarshal([]byte(b.do("status", `{"poll_workers":true}`)), &status))
		if waited := time.Since(begun); waited > answerTimeout {
			t.Errorf("status took %v", waited)
		}
		heard := 0
		for _, w := range status.Workers {
			switch {
			case w.Status != nil:
				heard++
			case strings.HasPrefix(w.Name, "good"), !strings.HasPrefix(w.StatusError, "no answer within"):
				t.Errorf("%s: %s", w.Name, w.StatusError)
			}
		}
		if heard != others || all.Load() != others || most.Load() > fanOut {
			t.Errorf("%d of %d are heard; %d answered, up to %d at once", heard, others, all.Load(), most.Load())
		}
	})
}

// A master tells of itself of which commit it was built, beside its workers.
func TestStatusTellsOfWhichCommitAMasterIs(t *testing.T) {
	t.Parallel()
	build := api.Build{Version: "1.2.3", Commit: "0123456789abcdef", CommitDate: "2026-11-20T14:00:00Z"}
	address, _, _ := serveMaster(t, Config{Build: build}, "")
	client := connect(t, address, jobnet.LinkConfig{})
	expect(t, ask(t, client, "status", nil), `{"workers":[],"version":"1.2.3","commit":"0123456789abcdef","commitDate":"2026-11-20T14:00:00Z"}`)
}

// However many targets there are, a status is short, and workers with few targets are told in full.
func TestStatusIsBounded(t *testing.T) {
	t.Parallel()
	address, _, _ := serveMaster(t, Config{}, "")
	few := numbered("few", 20)
	registered(t, address, "few", few, nil)
	for i := range 8 {
		registered(t, address, fmt.Sprint("many", i), numbered(strings.Repeat("x", 240), api.MostTargets), nil)
	}
	answer := ask(t, clientOf(t, address), "status", nil)
	if len(answer) > mostStatusBytes+1<<16 {
		t.Errorf("a status of %d bytes", len(answer))
	}
	var status api.FleetStatus[json.RawMessage]
	must.Do(t, json.Unmarshal(answer, &status))
	for _, w := range status.Workers {
		switch {
		case w.Name == "few" && (!slices.Equal(w.Targets, few) || w.TargetsCut != 0):
			t.Errorf("of the worker with few targets: %d, cut %d", len(w.Targets), w.TargetsCut)
		case w.Name != "few" && (w.TargetsCut == 0 || len(w.Targets)+w.TargetsCut != api.MostTargets):
			t.Errorf("%s: %d targets, cut %d", w.Name, len(w.Targets), w.TargetsCut)
		}
	}
}

// Clients that read nothing of their status keep no other from its own.
func TestUnreadStatusesKeepNoOtherWaiting(t *testing.T) {
	t.Parallel()
	address, _, _ := serveMaster(t, Config{}, "")
	for i := range 8 {
		registered(t, address, fmt.Sprint("many", i), numbered(strings.Repeat("x", 240), api.MostTargets), nil)
	}
	for range 17 {
		conn := must.Get(net.Dial("tcp", address))(t)
		w := newWire(t, conn)
		w.send(`[0,{"no":1,"type":"status"}]`)
		if first, err := w.reader.Peek(4); err != nil { // the answer is on its way; nothing more of it is read
			t.Fatalf("no answer begins: %q, %v", first, err)
		}
	}
	ask(t, clientOf(t, address), "status", nil)
}

// What a master counts, and what it knows of its workers; no worker is asked.
func TestAMastersStanding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{})
		b.join("one", askedFor(new([]string), "1"), "a")
		two := b.join("two", askedFor(new([]string), "2"), "a", "b")
		before := time.Now()
		b.do("poke", `{"targets":["a","nobody"]}`)
		synctest.Wait()
		time.Sleep(time.Minute)
		got := b.Standing()
		if got.Workers != 2 || got.Targets != 2 || got.Ended != 0 || got.Poked != 2 || got.Unserved != 1 {
			t.Errorf("%+v", got)
		}
		if got.Polled < 2 || got.UnservedSince.Sub(before).Abs() > time.Second {
			t.Errorf("polled %d times, unserved since %v, poked at %v", got.Polled, got.UnservedSince, before)
		}
		two.Close()
		synctest.Wait()
		if got := b.Standing(); got.Workers != 1 || got.Ended != 1 || got.Targets != 1 {
			t.Errorf("behind the end of a worker: %+v", got)
		}
	})
}

// A client that asks for details hears what nobody serves; one that does not is answered as ever.
func TestWhatNobodyServesIsTold(t *testing.T) {
	t.Parallel()
	tests := []struct{ typ, data, want string }{
		{"poke", `{"targets":["a","nobody","B","nobody"],"detail":true}`, `{"result":"ok","unserved":["nobody","B"],"workers":2}`}, // no table folds
		{"poke", `{"targets":["nobody"],"detail":true}`, `{"result":"ok","unserved":["nobody"],"workers":0}`},
		{"poke", `{"targets":["a","nobody"]}`, `"ok"`},
		{"poke", `{"targets":["nobody"],"detail":false}`, `"ok"`},
		{"pause", `{"targets":["a","nobody"],"detail":true}`, `{"result":"ok","unserved":["nobody"],"workers":2}`},
		{"pause", `{"targets":["B"],"detail":true}`, `{"result":"ok","unserved":["B"],"workers":0}`}, // no table folds
		{"continue", `{"targets":["b"],"detail":true}`, `{"result":"ok","unserved":[],"workers":1}`},
		{"continue", `{"detail":true}`, `{"result":"ok","unserved":[],"workers":2}`},
		{"pause", `{"targets":["a","nobody"]}`, `"ok"`},
		{"recycle", `{"targets":["b","nobody"],"detail":true}`, `{"result":"ok","unserved":["nobody"],"workers":1}`},
		{"recycle", `{}`, `"ok"`},
	}
	for _, test := range tests {
		t.Run(test.typ+" "+test.data, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, Config{})
				b.join("one", askedFor(new([]string), "1"), "a")
				b.join("two", askedFor(new([]string), "2"), "a", "b")
				check.Equal(t, b.do(test.typ, test.data), test.want, "answer")
				synctest.Wait()
			})
		})
	}
}

// The master's log says who wants what changed, before anything of it is done.
func TestTheLogTellsWhoAsksForAChange(t *testing.T) {
	t.Parallel()
	log := newLogged()
	address, _, _ := serveMaster(t, Config{Logger: log.logger()}, "")
	link := connect(t, address, jobnet.LinkConfig{})
	for request, data := range map[string]any{
		api.MasterPause.Name: api.Targets{Targets: []string{"a\nb"}},
		"cancel":             map[string]any{"ids": []int{1}},
	} {
		_, _ = link.Request(t.Context(), request, data) // nobody serves it
		line := log.await(t, "a change is asked for")
		if !strings.Contains(line, "level=INFO") || !strings.Contains(line, "request="+request) || !strings.Contains(line, "address=127.0.0.1:") || strings.Count(line, "\n") != 1 {
			t.Errorf("logged %q", line)
		}
	}
	_, _ = link.Request(t.Context(), api.MasterStatus.Name, nil)
	if text := log.text.String(); strings.Contains(text, api.MasterStatus.Name) {
		t.Errorf("told of a question:\n%s", text)
	}
}

// An agent tells for how long it was without its master.
func TestAgentTellsHowLongItWasWithoutItsMaster(t *testing.T) {
	t.Parallel()
	address, _, stop := serveMaster(t, Config{}, "")
	log := newLogged()
	agent := agentOf(address, targetsOf("a"), nil)
	agent.config.Logger = log.logger().With("master", address)
	start(t, agent.Run)
	if line := log.await(t, "registered with the master"); !strings.Contains(line, "level=INFO") || strings.Contains(line, "after=") {
		t.Errorf("logged %q", line)
	}
	stop()
	log.await(t, "no connection to the master")
	m, listener := New(Config{}), listenAt(t, address)
	start(t, m.Run)
	serve(t, jobnet.NewServer(jobnet.ServerConfig{Handlers: m.Handlers()}), listener)
	if line := log.await(t, "registered with the master again"); !strings.Contains(line, "level=WARN") || !strings.Contains(line, "after=") || !strings.Contains(line, "master="+address) {
		t.Errorf("logged %q", line)
	}
}

// Peers don't fill the log: what they send is cut, a registration that says nothing new is not
// worth a line.
func TestPeersWriteLittleOfTheLog(t *testing.T) {
	t.Parallel()
	log := newLogged()
	address, _, _ := serveMaster(t, Config{Logger: log.logger()}, "")
	link := registered(t, address, strings.Repeat("n", 255), numbered(strings.Repeat("t", 200), 1000), nil)
	if line := log.await(t, "worker registered"); len(line) > 1500 || !strings.Contains(line, " and 995 more") {
		t.Errorf("%d bytes: %s", len(line), line)
	}
	for range 8 {
		ask(t, link, "register-worker", api.Registration{Name: strings.Repeat("n", 255), Targets: numbered(strings.Repeat("t", 200), 1000)})
	}
	ask(t, link, "register-worker", api.Registration{Name: "other", Targets: []string{"a"}})
	log.await(t, "worker=other")
	log.mu.Lock()
	defer log.mu.Unlock()
	check.Equal(t, strings.Count(log.text.String(), "worker registered"), 2, "lines tell of registrations")
}

func TestListedNames(t *testing.T) {
	t.Parallel()
	check.Equal(t, listed([]string{"a", "b"}).String(), "a, b", "listed")
}

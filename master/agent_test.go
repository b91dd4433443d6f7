package master

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// agentOf is an agent with targets that the test can change.
func agentOf(address string, targets *atomic.Pointer[[]string], handlers map[string]jobnet.Handler) *Agent {
	return newAgent(AgentConfig{
		Address: address, Name: "w", Targets: func() []string { return *targets.Load() },
		Handlers: handlers, Password: "s3cret", ReconnectTimeout: 20 * time.Millisecond,
	})
}

// newAgent is an agent of a worker that nothing else is known of.
func newAgent(config AgentConfig) *Agent {
	config.OnRegistered = func() {}
	config.Leaves = func() bool { return true }
	return NewAgent(config)
}

func targetsOf(names ...string) *atomic.Pointer[[]string] {
	var targets atomic.Pointer[[]string]
	targets.Store(&names)
	return &targets
}

// await polls the registry: a registration seen from outside signals nothing.
func await(t *testing.T, m *Master, want ...[]string) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for ctx := within(t); ; {
		var got [][]string
		for _, w := range m.registry.all() {
			got = append(got, w.profile.Load().targets)
		}
		if slices.EqualFunc(got, want, slices.Equal) {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("registered are %q, want %q", got, want)
		}
	}
}

func TestAgentRegistersAgainWhenTargetsChange(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	targets := targetsOf()
	agent := agentOf(address, targets, nil)
	start(t, agent.Run)
	for _, now := range [][]string{{"a"}, {"a", "b"}, nil, {"c"}} {
		targets.Store(&now)
		agent.Changed()
		if now == nil {
			await(t, m) // with nothing to serve it stays away
		} else {
			await(t, m, now)
		}
	}
}

func TestAgentServesItsMaster(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	run := func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
		return json.RawMessage(`{"jobs":{"900142":{"result":"ok","stdout":"out 900142\n"}}}`), nil
	}
	start(t, agentOf(address, targetsOf("a"), map[string]jobnet.Handler{"run-manual": run}).Run)
	await(t, m, []string{"a"})
	client := connect(t, address, jobnet.LinkConfig{Password: "s3cret"})
	expect(t, ask(t, client, "run-manual", json.RawMessage(jobList(900142))), `{"jobs":{"900142":{"result":"ok","stdout":"out 900142\n"}}}`)
}

func TestAgentReconnects(t *testing.T) {
	t.Parallel()
	address, m, stop := serveMaster(t, Config{}, "s3cret")
	start(t, agentOf(address, targetsOf("a"), nil).Run)
	await(t, m, []string{"a"})
	stop()

	listener := listenAt(t, address)
	for range 3 { // a master that drops everybody, and is tried again
		conn := must.Get(listener.Accept())(t)
		_ = conn.Close()
	}
}

func TestAgentWithAWrongPasswordKeepsTrying(t *testing.T) {
	t.Parallel()
	address, m, stop := serveMaster(t, Config{}, "other")
	start(t, agentOf(address, targetsOf("a"), nil).Run)
	client := connect(t, address, jobnet.LinkConfig{Password: "other"})
	expect(t, ask(t, client, "status", nil), `{"workers":[]}`)
	await(t, m)
	stop()
}

// A master that falls silent without closing the connection is left, and tried again.
func TestPitfall36AgentLeavesADeadMaster(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	agent := agentOf(listener.Addr().String(), targetsOf("a"), nil)
	agent.config.pingInterval = 5 * time.Millisecond
	start(t, agent.Run)
	for range 2 {
		conn := must.Get(listener.Accept())(t)
		defer conn.Close()
	}
}

// When the worker stops, its master still gets the answers that it waits for.
func TestAgentDrains(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	begun, release := make(chan struct{}), make(chan struct{})
	agent := agentOf(address, targetsOf("a"), map[string]jobnet.Handler{
		"run-manual": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			request.Proceed()
			close(begun)
			<-release
			return json.RawMessage(`{"jobs":{"1":"done"}}`), nil
		},
	})
	stop := start(t, agent.Run)
	await(t, m, []string{"a"})
	client := connect(t, address, jobnet.LinkConfig{Password: "s3cret"})
	answer := make(chan json.RawMessage, 1)
	go func() { answer <- ask(t, client, "run-manual", json.RawMessage(jobList(1))) }()
	<-begun
	go func() { close(release) }()
	stop()
	expect(t, <-answer, `{"jobs":{"1":"done"}}`)
	await(t, m)
	if down := m.registry.down(time.Now()); len(down) > 0 {
		t.Errorf("it has stopped in order, and counts as down: %+v", down)
	}
}

// What a master refuses is told again after a while, though nobody pokes anything else: rows that were set
// back would wait for ever where nobody polls.
func TestRefusedPokeIsToldAgain(t *testing.T) {
	t.Parallel()
	told := make(chan string, 10)
	var refused atomic.Bool
	listener := listen(t)
	serve(t, jobnet.NewServer(jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{
		api.Register.Name: func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return "ok", nil },
		api.Poke.Name: func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			told <- string(request.Data)
			if !refused.Swap(true) {
				return nil, jobnet.Refusal("not now")
			}
			return "ok", nil
		},
	}, Password: "s3cret"}), listener)
	agent := agentOf(listener.Addr().String(), targetsOf("a"), nil)
	start(t, agent.Run)
	agent.Poke([]string{"elsewhere"})
	for i := range 2 {
		select {
		case data := <-told:
			check.Contains(t, data, "elsewhere", "told")
		case <-time.After(patience):
			t.Fatalf("told %d times, want 2", i)
		}
	}
}

// A worker that gives rows back has the others look for them, and itself.
func TestAgentPokesOtherWorkers(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	mine, minePolled := noted()
	other, otherPolled := noted()
	agent := agentOf(address, targetsOf("a"), mine)
	start(t, agent.Run)
	registered(t, address, "other", []string{"a", "b"}, other)
	until(t, "both are registered", func() bool { return len(m.registry.all()) == 2 })
	agent.Poke([]string{"a"})
	expectPoll(t, minePolled, "a")
	expectPoll(t, otherPolled, "a")
}

// Poke lasts until the master has answered it: over the next connection, where this one is dead.
func TestAgentPokesAgainAfterAReconnect(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	r := startRelay(t, address)
	handlers, polled := noted()
	agent := agentOf(r.address, targetsOf("mine"), nil)
	start(t, agent.Run)
	await(t, m, []string{"mine"})
	first := <-r.made
	first.swallow(true, true)
	agent.Poke([]string{"a"})
	registered(t, address, "other", []string{"a"}, handlers)
	first.lose()
	expectPoll(t, polled, "a")
}

// fakeMaster answers register-worker, and poke with what the test says; it notes the pokes.
func fakeMaster(t *testing.T, poke func(targets []string) error) (address string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	serveFake(t, listener, poke)
	return listener.Addr().String()
}

func serveFake(t *testing.T, listener net.Listener, poke func(targets []string) error) {
	t.Helper()
	server := jobnet.NewServer(jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{
		"register-worker": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return "ok", nil },
		"poke": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			poked, err := api.Poke.Read(request.From, request.Fields())
			if err == nil {
				err = poke(poked.Targets)
			}
			return "ok", err
		},
	}, Password: "s3cret"})
	start(t, func(ctx context.Context) error {
		err := server.Serve(ctx, listener)
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Shutdown(ended)
		return err
	})
}

// An agent that stops delivers what it was given before, however shortly, and whatever else is
// under way.
func TestAgentDeliversPokesBeforeItEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                  string
		served                *atomic.Pointer[[]string]
		registers, dead, busy bool
	}{
		{name: "registered", served: targetsOf("mine"), registers: true},
		{name: "not connected yet", served: targetsOf("mine")},
		{name: "nothing served", served: targetsOf()},
		{name: "the link is half dead", served: targetsOf("mine"), registers: true, dead: true},
		{name: "a request is under way on it, too", served: targetsOf("mine"), registers: true, dead: true, busy: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pokes, begun, registered := make(chan string, 10), make(chan struct{}), make(chan struct{})
			address := fakeMaster(t, func(targets []string) error { pokes <- fmt.Sprint(targets); return nil })
			r := startRelay(t, address)
			agent := agentOf(r.address, test.served, map[string]jobnet.Handler{
				"run-manual": func(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
					close(begun)
					return hang(ctx, link, request)
				},
			})
			agent.config.DrainTimeout = time.Second
			agent.config.OnRegistered = sync.OnceFunc(func() { close(registered) })
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if !test.registers {
				agent.Poke([]string{"a"})
				cancel()
			}
			ended := make(chan error, 1)
			go func() { ended <- agent.Run(ctx) }()
			var conn *relayed
			if test.registers {
				<-registered
				conn = <-r.made
			}
			if test.dead {
				conn.swallow(true, true)
			}
			if test.busy {
				conn.inject(t, `[0,{"no":1,"type":"run-manual"}]`)
				<-begun
			}
			if test.registers {
				agent.Poke([]string{"a"})
				cancel()
			}
			must.Do(t, <-ended)
			select {
			case got := <-pokes:
				check.Equal(t, got, "[a]", "poked")
			default:
				t.Error("the agent ended and had not told its master")
			}
		})
	}
}

// A master that does not answer holds up a stop only for the DrainTimeout.
func TestAgentThatStopsIsNotHeldUp(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // and accepts nobody
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	agent := agentOf(listener.Addr().String(), targetsOf("a"), nil)
	agent.config.ReconnectTimeout = time.Hour
	agent.config.DrainTimeout = 200 * time.Millisecond
	agent.Poke([]string{"a"})
	stop := start(t, agent.Run)
	begun := time.Now()
	stop()
	if took := time.Since(begun); took > agent.config.DrainTimeout+20*time.Second {
		t.Errorf("the stop took %v", took)
	}
}

// A worker that serves nothing any more gave rows back when it left its last target: its master
// must hear of them.
func TestAgentWithoutTargetsPokes(t *testing.T) {
	t.Parallel()
	pokes := make(chan string, 10)
	agent := agentOf(fakeMaster(t, func(targets []string) error { pokes <- fmt.Sprint(targets); return nil }), targetsOf(), nil)
	start(t, agent.Run)
	agent.Poke([]string{"left"})
	expectPoll(t, pokes, "[left]")
}

// The pokes that wait are bounded, and Poke never waits for anybody.
func TestPokesOfAnAgentAreBounded(t *testing.T) {
	t.Parallel()
	agent := agentOf("127.0.0.1:1", targetsOf(), nil)
	for part := range slices.Chunk(numbered("target", 2*maxRemembered), maxRemembered/10) {
		agent.Poke(part)
	}
	if kept := agent.pokes.take(); len(kept) != maxRemembered || kept[0] != fmt.Sprint("target", maxRemembered) {
		t.Errorf("%d targets are kept", len(kept))
	}
}

// The worker hears of each registration: it may have missed pokes before it.
func TestAgentTellsOfEachRegistration(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	r := startRelay(t, address)
	targets := targetsOf("a")
	agent := agentOf(r.address, targets, nil)
	registrations := make(chan string, 10)
	agent.config.OnRegistered = func() { registrations <- fmt.Sprint(*targets.Load()) }
	start(t, agent.Run)
	expectPoll(t, registrations, "[a]")
	targets.Store(&[]string{"b"})
	agent.Changed()
	expectPoll(t, registrations, "[b]")
	await(t, m, []string{"b"})
	(<-r.made).lose()
	expectPoll(t, registrations, "[b]")
}

func TestPitfall37WorkersDoNotComeBackTogether(t *testing.T) {
	t.Parallel()
	const most, workers, parts = 10 * time.Second, 1000, 10
	var tenths [parts]int
	for range workers {
		wait := jitter(most)
		if wait < 0 || wait >= most {
			t.Fatalf("a wait of %s, where %s is the most", wait, most)
		}
		tenths[wait*parts/most]++
	}
	for i, n := range tenths {
		if n > workers/parts*2 {
			t.Errorf("%d of %d workers come back in the same tenth of the time, the %dth", n, workers, i+1)
		}
	}
}

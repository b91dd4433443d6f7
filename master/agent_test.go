package master

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
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
	config.Folds = func() bool { return false }
	config.Rates = func() []api.SharedRate { return nil }
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
	start(t, agentOf(address, targetsOf("a"), new(nodeOne).handlers()).Run)
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
			if !strings.Contains(data, "elsewhere") {
				t.Errorf("told %s", data)
			}
		case <-time.After(patience):
			t.Fatalf("told %d times, want 2", i)
		}
	}
}

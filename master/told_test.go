package master

import (
	"strings"
	"testing"

	jobnet "jobd/net"
	"jobd/net/api"
)

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

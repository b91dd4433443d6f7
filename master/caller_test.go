package master

import (
	"context"
	"encoding/json"
	"testing"

	jobnet "jobd/net"
	"jobd/store/storetest/must"
)

// askers gives handlers that tell who asked.
func askers(types ...string) (handlers map[string]jobnet.Handler, asked chan string) {
	asked = make(chan string, 100)
	handlers = make(map[string]jobnet.Handler)
	for _, typ := range types {
		handlers[typ] = func(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
			asked <- typ + " by " + request.From.By()
			return json.RawMessage(`{}`), nil
		}
	}
	return handlers, asked
}

// What a client asks through the master is the client's doing, in the worker's eyes too.
func TestWorkerKnowsWhoAsksThroughItsMaster(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	handlers, asked := askers("pause", "continue", "recycle", "run-manual", "send-signal", "journal-reapply")
	start(t, agentOf(address, targetsOf("a"), handlers).Run)
	await(t, m, []string{"a"})
	client, own := known(t, address)
	requests := map[string]string{
		"pause":           `{"targets":["a"],"by":"1.2.3.4:5"}`, // a client can't name another one
		"continue":        `{}`,
		"recycle":         `{"targets":["a"]}`,
		"run-manual":      `{"jobs":[{"id":1,"target":"a"}],"by":"1.2.3.4:5"}`,
		"send-signal":     `{"jobs":[{"id":1,"signal":15,"target":"a"}]}`,
		"journal-reapply": `{"by":"1.2.3.4:5"}`,
	}
	for typ, data := range requests {
		ask(t, client, typ, json.RawMessage(data))
		if got, want := <-asked, typ+" by "+own+" via master "+address; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Only the master that the worker's agent has chosen may speak for others, and only by address.
func TestNobodyElseSpeaksForOthers(t *testing.T) {
	t.Parallel()
	handlers, asked := askers("pause")
	listener := listen(t)
	server := jobnet.NewServer(jobnet.ServerConfig{Handlers: handlers})
	serve(t, server, listener)
	client, own := known(t, listener.Addr().String())
	ask(t, client, "pause", json.RawMessage(`{"by":"1.2.3.4:5"}`))
	if got, want := <-asked, "pause by "+own; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestWhatAMasterSaysOfItsClientIsAnAddress(t *testing.T) {
	t.Parallel()
	handlers, asked := askers("pause")
	listener := listen(t)
	start(t, agentOf(listener.Addr().String(), targetsOf("a"), handlers).Run)
	conn := must.Get(listener.Accept())(t)
	master := newWire(t, conn)
	master.receive()
	own := " via master " + conn.LocalAddr().String()
	for by, want := range map[string]string{
		`"10.0.0.5:4711"`:            "10.0.0.5:4711" + own,
		`"[2001:db8::1]:4711"`:       "[2001:db8::1]:4711" + own,
		`"[fe80::1%\u001b[2J]:4711"`: "[fe80::1]:4711" + own,
		`"root"`:                     "master " + conn.LocalAddr().String(),
		`7`:                          "master " + conn.LocalAddr().String(),
	} {
		master.send(`[0,{"no":1,"type":"pause","data":{"by":` + by + `}}]`)
		if got := <-asked; got != "pause by "+want {
			t.Errorf("%s: %s, want %s", by, got, want)
		}
		master.receive()
	}
	master.send(`[0,{"no":1,"type":"pause"}]`) // the original's
	if got, want := <-asked, "pause by master "+conn.LocalAddr().String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

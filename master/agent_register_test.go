package master

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// A master holds its answer to a wrong password back where an address has given many. The worker
// waits for it: otherwise it never learns what is wrong.
func TestAgentWaitsForTheCauseOfItsFailure(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer func(ctx context.Context) error
		want   string
	}{
		{
			"a wrong password", func(ctx context.Context) error {
				select {
				case <-time.After(5 * time.Second): // the longest delay of net
				case <-ctx.Done():
				}
				return jobnet.Refusal("invalid password")
			},
			"register with m:1: invalid password: the worker's password must be that of the master, or a token of its principals_file",
		},
		{
			"no answer", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			"register with m:1: no answer within 15s: is it a master that listens there?",
		},
		{
			"another version", func(context.Context) error { return jobnet.Refusal("your version is too old") },
			"register with m:1: the master refuses: your version is too old",
		},
		{
			"the instance is registered", func(context.Context) error { return errOutdated },
			"register with m:1: the master refuses: a newer connection of this worker is registered",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				master := jobnet.NewLink(ours, jobnet.LinkConfig{Handlers: map[string]jobnet.Handler{
					"register-worker": func(ctx context.Context, _ *jobnet.Link, _ jobnet.Request) (any, error) {
						return "ok", test.answer(ctx)
					},
				}})
				link := jobnet.NewLink(theirs, jobnet.LinkConfig{})
				start(t, master.Run)
				start(t, link.Run)
				if err := agentOf("m:1", targetsOf("a"), nil).register(t.Context(), link); err == nil || err.Error() != test.want {
					t.Errorf("error %v, want %s", err, test.want)
				}
			})
		})
	}
}

// logged is a log that a test waits for.
type logged struct {
	mu    sync.Mutex
	text  bytes.Buffer
	lines chan string
}

func newLogged() *logged { return &logged{lines: make(chan string, 10_000)} }

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines <- string(line)
	return l.text.Write(line)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// await gives the next line with some text.
func (l *logged) await(t *testing.T, want string) string {
	t.Helper()
	for ctx := within(t); ; {
		select {
		case line := <-l.lines:
			if strings.Contains(line, want) {
				return line
			}
		case <-ctx.Done():
			t.Fatalf("never logged: %s", want)
		}
	}
}

// Why a worker is not registered is in its log and in its status.
func TestAgentTellsWhyItIsNotRegistered(t *testing.T) {
	t.Parallel()
	closing := func(t *testing.T) string {
		listener := listen(t)
		start(t, func(context.Context) error {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return nil
				}
				_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
				_ = conn.Close()
			}
		})
		t.Cleanup(func() { _ = listener.Close() })
		return listener.Addr().String()
	}
	tests := []struct {
		name   string
		listen func(t *testing.T) (address string)
		want   string
	}{
		{"the master has another password", func(t *testing.T) string {
			address, _, _ := serveMaster(t, Config{}, "other")
			return address
		}, "invalid password: the worker's password must be that of the master, or a token of its principals_file"},
		{"a worker listens there", func(t *testing.T) string {
			listener := listen(t)
			serve(t, jobnet.NewServer(jobnet.ServerConfig{}), listener)
			return listener.Addr().String()
		}, "unknown request type: 'register-worker': it is not a master, but perhaps a worker"},
		{"a web server listens there", closing, "is it a master that listens there?"},
		{"nobody listens there", func(t *testing.T) string {
			listener := listen(t)
			_ = listener.Close()
			return listener.Addr().String()
		}, "connection refused"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			log := newLogged()
			address := test.listen(t)
			agent := newAgent(AgentConfig{
				Address: address, Name: "w", Targets: func() []string { return []string{"a"} },
				Password: "s3cret", ReconnectTimeout: patience, Logger: log.logger(),
			})
			check.Equal(t, agent.Status(), (api.MasterStanding{Address: address}), "status before")
			start(t, agent.Run)
			check.Contains(t, log.await(t, "no connection to the master"), test.want, "logged")
			if got := agent.Status(); got.Registered || !strings.Contains(got.Error, test.want) {
				t.Errorf("status %+v", got)
			}
		})
	}
}

// A registration that succeeds ends what was wrong.
func TestAgentStatusFollowsItsRegistration(t *testing.T) {
	t.Parallel()
	address, m, stop := serveMaster(t, Config{}, "s3cret")
	log := newLogged()
	agent := agentOf(address, targetsOf("a"), nil)
	agent.config.Logger = log.logger()
	agent.note(false, errors.New("before"))
	start(t, agent.Run)
	log.await(t, "registered with the master")
	await(t, m, []string{"a"})
	var began api.MasterStanding
	until(t, "registered", func() bool { began = agent.Status(); return began.Registered && began.Error == "" })
	if began.Address != address || began.Since.IsZero() {
		t.Errorf("status %+v", began)
	}
	stop()
	log.await(t, "no connection to the master")
	lost := agent.Status()
	if lost.Registered || lost.Error == "" || !lost.Since.After(began.Since) {
		t.Errorf("status %+v", lost)
	}
	agent.note(false, errors.New("again"))
	if got := agent.Status(); got.Since != lost.Since || got.Error != "again" {
		t.Errorf("status %+v, want since %v", got, lost.Since)
	}
}

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
		check.Equal(t, <-asked, typ+" by "+own+" via master "+address)
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
	check.Equal(t, <-asked, "pause by "+own)
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
		check.Equal(t, <-asked, "pause by "+want, "%s: …, want %s", by, want)
		master.receive()
	}
	master.send(`[0,{"no":1,"type":"pause"}]`) // the original's
	check.Equal(t, <-asked, "pause by master "+conn.LocalAddr().String())
}

// relay passes connections on to one address. Any of them can be made half dead: what is sent is
// taken, and goes nowhere, and nobody hears of it.
type relay struct {
	address string
	made    chan *relayed // every connection
}

// relayed is one connection through a relay.
type relayed struct {
	mu           sync.Mutex
	deafToServer bool // what the server sends is swallowed
	deafToClient bool
	client       net.Conn
}

func startRelay(t *testing.T, target string) *relay {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := &relay{address: listener.Addr().String(), made: make(chan *relayed, 100)}
	var tasks sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	tasks.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			mu.Lock()
			open = append(open, client, server)
			mu.Unlock()
			c := &relayed{client: client}
			tasks.Go(func() { c.pass(server, client, &c.deafToServer) })
			tasks.Go(func() { c.pass(client, server, &c.deafToClient) })
			r.made <- c
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		tasks.Wait()
	})
	return r
}

// pass passes on what from sends, unless it is swallowed. A swallowed end is not passed on either.
func (c *relayed) pass(from, to net.Conn, deaf *bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		c.mu.Lock()
		swallow := *deaf
		c.mu.Unlock()
		if err != nil {
			if !swallow {
				_ = to.Close()
			}
			return
		}
		if !swallow {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
}

// swallow makes the connection deaf to one end or both.
func (c *relayed) swallow(server, client bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deafToServer, c.deafToClient = server, client
}

// inject sends the client a frame that its server did not send.
func (c *relayed) inject(t *testing.T, frame string) {
	t.Helper()
	must.Get(c.client.Write([]byte(frame + "\x04")))(t)
}

// lose makes the connection half dead for good: the client sees its end, the server does not.
func (c *relayed) lose() {
	c.swallow(true, true)
	_ = c.client.Close()
}

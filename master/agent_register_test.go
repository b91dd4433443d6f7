package master

import (
	"bytes"
	"context"
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
		}, "unknown request type: 'register-worker': it is no master that listens there, but perhaps a worker"},
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
			if got := agent.Status(); got != (api.MasterStanding{Address: address}) {
				t.Errorf("status before: %+v", got)
			}
			start(t, agent.Run)
			if line := log.await(t, "no connection to the master"); !strings.Contains(line, test.want) {
				t.Errorf("logged %s, want %s", line, test.want)
			}
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

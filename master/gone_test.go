package master

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/must"
)

// asking are the requests for which the master asks workers and waits for their answers.
func asking() map[string]string {
	requests := map[string]string{
		api.MasterPause.Name: `{}`, api.MasterContinue.Name: `{}`, api.MasterRecycle.Name: `{}`,
		api.MasterStatus.Name: `{"poll_workers":true}`, api.RouteSignal.Name: `{"jobs":[{"id":1,"signal":15,"target":"a"}]}`,
	}
	for typ, how := range api.Kinds {
		if how.Relayed || how.OneWorker {
			requests[typ] = `{"worker":"worker"}`
		}
	}
	return requests
}

// A master that stops ends all links and waits for what it does for clients: all of it ends with the
// client's link, without an answer, which nobody would get.
func TestWhatIsAskedForClientsEndsWithTheirLinks(t *testing.T) {
	t.Parallel()
	for typ, data := range asking() {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			address, m, _ := serveMaster(t, Config{}, "s3cret")
			asked, end := make(chan struct{}), make(chan struct{})
			defer close(end)
			registered(t, address, "worker", []string{"a"}, map[string]jobnet.Handler{
				typ: func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { close(asked); <-end; return nil, nil },
			})
			client := connect(t, address, jobnet.LinkConfig{})
			ctx, leave := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := m.Handlers()[typ](ctx, client, jobnet.Request{From: anybody, Type: typ, Data: json.RawMessage(data)})
				ended <- err
			}()
			select {
			case <-asked:
			case err := <-ended:
				t.Fatalf("no worker was asked: %v", err)
			}
			leave()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v, not with its client", err)
			}
		})
	}
}

// counted counts how often it is made JSON.
type counted struct{ made *int }

func (c counted) MarshalJSON() ([]byte, error) { *c.made++; return []byte(`{}`), nil }

// What a client wanted to change goes to all workers, though its link has ended since; when the
// workers' links have, too, because the master stops, none of what is left is made for them. What
// changes nothing is asked of nobody then: a master that stops beside a flood would wait for it.
func TestLettersOfAClientThatIsGoneGoToWhoIsThere(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	got := make(chan struct{})
	registered(t, address, "worker", []string{"a"}, map[string]jobnet.Handler{
		"pause": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { got <- struct{}{}; return nil, nil },
	})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	workers, made := m.registry.all(), 0
	ask := func(typ string) {
		from, left := m.clients.enter(workers[0].link)
		defer left()
		asking := round{Master: m, from: from, who: anybody, typ: typ, timeout: answerTimeout}
		if _, err := asking.ask(ctx, []letter{{workers, counted{&made}}, {workers, counted{&made}}}); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v, not with its client", err)
		}
	}
	ask("status")
	if made != 0 {
		t.Errorf("%d letters that change nothing were made for nobody", made)
	}
	ask("pause")
	<-got
	<-got
	workers[0].link.Abandon(errReplaced)
	before := made
	ask("pause")
	if before != 2 || made != before {
		t.Errorf("letters were made %d times for a worker that is there, %d times for one that is not; want 2 and 0", before, made-before)
	}
}

// So do long letters, which wait for their turn when the client leaves. They don't wait for ever.
func TestLongLettersOfAClientThatIsGone(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	got := make(chan struct{}, 2)
	registered(t, address, "worker", []string{"a"}, map[string]jobnet.Handler{
		"pause": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { got <- struct{}{}; return nil, nil },
	})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	workers, long := m.registry.all(), strings.Repeat("x", 2*longBytes)
	ask := func(timeout time.Duration) (ended chan error) {
		ended = make(chan error, 1)
		go func() {
			from, left := m.clients.enter(workers[0].link)
			defer left()
			asking := round{Master: m, from: from, who: anybody, typ: "pause", timeout: timeout}
			_, err := asking.ask(ctx, []letter{{workers, long}, {workers, long}})
			ended <- err
		}()
		return ended
	}
	must.Do(t, m.forwarded.Acquire(t.Context(), forwardedBytes))
	ended := ask(time.Hour)
	until(t, "the first letter waits", func() bool {
		return !m.forwarded.TryAcquire(0) || len(ended) == 1 // which fails while somebody waits
	})
	m.forwarded.Release(forwardedBytes)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v, not with its client", err)
	}
	until(t, "both letters are there", func() bool { return len(got) == 2 })

	must.Do(t, m.forwarded.Acquire(t.Context(), forwardedBytes))
	if err := <-ask(time.Millisecond); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v, not with its client", err)
	}
	m.forwarded.Release(forwardedBytes)
	if len(got) != 2 || !allFree(m) {
		t.Errorf("%d letters were sent, want 2; all bytes are free: %t", len(got), allFree(m))
	}
}

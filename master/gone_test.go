package master

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
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
			check.ErrorIs(t, <-ended, context.Canceled, "ended with …, not with its client")
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
	check.Equal(t, made, 0, "letters that change nothing were made for nobody")
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

// A worker whose link ends without a word is told as down until one of its name is registered, and for
// a day at most; one that has said that it leaves is not.
func TestAWorkerThatIsGoneIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{})
		begun := time.Now()
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, w := range b.registry.down(time.Now()) {
				got = append(got, fmt.Sprint(w.Name, w.Targets, " ", time.UnixMilli(w.Since).Sub(begun)))
			}
			check.Elements(t, got, want, "down are")
		}
		killed, stopped := b.join("one", newPolls().handlers(), "a", "b"), b.join("two", newPolls().handlers(), "a")
		expect()
		ask(t, stopped, "register-worker", api.Registration{Name: "two", Targets: []string{"a"}, Leaving: true})
		_ = stopped.Close()
		time.Sleep(time.Minute)
		_ = killed.Close()
		expect("one[a b] 1m0s")
		again := b.join("one", newPolls().handlers(), "a")
		expect()
		_ = again.Close()
		expect("one[a] 1m0s")
		time.Sleep(rememberedFor)
		expect()
		old, newer := b.join("three", newPolls().handlers(), "a"), b.join("three", newPolls().handlers(), "a")
		_ = old.Close()
		expect() // a worker of its name is there
		_ = newer.Close()
		expect("three[a] 24h1m0s")
	})
}

// A master keeps so many in mind, those that it has missed last, with some of their targets.
func TestWorkersThatAreDownAreBounded(t *testing.T) {
	t.Parallel()
	b := newBubble(t, Config{})
	var m missed
	w := &worker{link: b.client}
	for i := range 2 * mostMissed {
		w.profile.Store(&profile{name: fmt.Sprint("w", i), targets: make([]string, 2*mostOfAMissed)})
		m.add(w, time.Now())
	}
	list := m.list(time.Now())
	last := list[len(list)-1]
	if len(list) != mostMissed || last.Name != fmt.Sprint("w", 2*mostMissed-1) || len(last.Targets) != mostOfAMissed || last.TargetsCut != mostOfAMissed {
		t.Errorf("%d are kept, the last is %+v", len(list), last)
	}
}

// A worker is asked about many signals in parts; one part that fails says nothing of the others.
func TestManySignalsGoInParts(t *testing.T) {
	t.Parallel()
	address, _, _ := serveMaster(t, Config{}, "s3cret")
	for _, fails := range []bool{false, true} {
		target := fmt.Sprint(fails)
		registered(t, address, target, []string{target}, map[string]jobnet.Handler{
			"send-signal": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
				var data api.Signals
				if err := json.Unmarshal(request.Data, &data); err != nil {
					return nil, err
				}
				if len(data.Jobs) > 10_000 || fails && data.Jobs[1] == 0 {
					return nil, jobnet.Refusal("too many")
				}
				delivered := make(map[string]bool)
				for id := range data.Jobs {
					delivered[fmt.Sprint(id)] = true
				}
				return delivered, nil
			},
		})
	}
	client := clientOf(t, address)
	ask(t, client, "status", nil)
	const count = 25_000
	for _, target := range []string{"false", "true"} {
		jobs := make([]map[string]any, count)
		for i := range jobs {
			jobs[i] = map[string]any{"id": i + 1, "signal": 15, "target": target}
		}
		var answer map[string]json.RawMessage
		must.Do(t, json.Unmarshal(ask(t, client, "send-signal", map[string]any{"jobs": jobs}), &answer))
		var errors map[string]string
		if answer["errors"] != nil {
			must.Do(t, json.Unmarshal(answer["errors"], &errors))
			delete(answer, "errors")
		}
		delivered := 0
		for _, done := range answer {
			if string(done) == "true" {
				delivered++
			}
		}
		want := map[string]int{"false": count, "true": 10_000}[target]
		if delivered != want || len(errors) != count-want {
			t.Errorf("%s: %d delivered, %d failed, want %d", target, delivered, len(errors), want)
		}
	}
}

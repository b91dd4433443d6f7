package master

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// clientOf is a link to the master that no relay disturbs.
func clientOf(t *testing.T, address string) *jobnet.Link {
	t.Helper()
	return connect(t, address, jobnet.LinkConfig{Password: "s3cret"})
}

// noted gives handlers that answer poll and note its targets.
func noted() (handlers map[string]jobnet.Handler, polled chan string) {
	polled = make(chan string, 1000)
	return map[string]jobnet.Handler{"poll": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
		asked, err := api.Poll.Read(request.From, request.Fields())
		polled <- strings.Join(asked.Targets, " ")
		return "ok", err
	}}, polled
}

func expectPoll(t *testing.T, polled <-chan string, want string) {
	t.Helper()
	select {
	case got := <-polled:
		check.Equal(t, got, want, "polled for")
	case <-within(t).Done():
		t.Fatalf("never polled for %q", want)
	}
}

// A poke that the master wrote into a link that is dead without having been closed is not lost: the
// worker gets it when it registers again, though the master still takes the old link for good.
func TestPokeIntoAHalfDeadLinkIsNotLost(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	r := startRelay(t, address)
	handlers, polled := noted()
	start(t, agentOf(r.address, targetsOf("a"), handlers).Run)
	await(t, m, []string{"a"})
	first := <-r.made
	first.swallow(true, true)
	expect(t, ask(t, clientOf(t, address), "poke", api.Targets{Targets: []string{"a"}}), `"ok"`)
	await(t, m, []string{"a"})
	first.lose()
	expectPoll(t, polled, "a")
}

// until polls what signals nothing to the outside.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for ctx := within(t); !condition(); {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("never came true: %s", what)
		}
	}
}

// manualOf is a request for jobs of target a, with the time that its answer took.
func manualOf(t *testing.T, client *jobnet.Link, ids ...int) (answer json.RawMessage, took time.Duration) {
	t.Helper()
	begun := time.Now()
	return ask(t, client, "run-manual", json.RawMessage(jobList(ids...))), time.Since(begun)
}

// soon is when a client must know that its job was never delivered: the bound is 10 s, the rest is
// for a busy machine.
const soon = 20 * time.Second

// impatient are a master's settings for tests that need not wait as long as a client would. Its
// workers' links are not ended for want of pongs.
var impatient = Config{PingInterval: time.Hour, deliveryTimeout: 3 * time.Second}

// A job for a worker whose link is dead without having been closed, in either direction or both, is
// answered soon as not delivered, and it was not: the worker never gets it.
func TestJobForAHalfDeadWorkerIsNotDelivered(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		server, client bool // whose words are swallowed
		config         Config
	}{
		{"neither hears the other", true, true, Config{PingInterval: time.Hour}},
		{"the worker hears nothing", true, false, impatient},
		{"the master hears nothing", false, true, impatient},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			address, m, _ := serveMaster(t, test.config, "s3cret")
			r := startRelay(t, address)
			ghost := newRunner()
			registered(t, r.address, "ghost", []string{"a"}, ghost.handlers())
			link := <-r.made
			link.swallow(test.server, test.client)
			client := clientOf(t, address)
			answer, took := manualOf(t, client, 5)
			expect(t, answer, `{"errors":{"5":"job 5 was not delivered: worker 'ghost' does not answer"}}`)
			if took > soon {
				t.Errorf("answered after %v", took)
			}
			link.swallow(false, false)
			if !test.server { // all that was ever sent has arrived: see to it that it was read
				must.Get(m.registry.all()[0].link.Request(within(t), "status", nil))(t)
			}
			check.Equal(t, ghost.count(), 0, "the worker jobs that were told not to be delivered")
		})
	}
}

// What was never delivered is given to another worker, and to that one at once when the first is
// known not to answer.
func TestUndeliveredJobGoesToAnotherWorker(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, impatient, "s3cret")
	r := startRelay(t, address)
	good := newRunner()
	close(good.finish)
	registered(t, r.address, "ghost", []string{"a"}, newRunner().handlers())
	(<-r.made).swallow(true, true)
	registered(t, address, "good", []string{"a"}, good.handlers())
	client := clientOf(t, address)
	answer, took := manualOf(t, client, 1, 2)
	expect(t, answer, `{"jobs":{"1":"done","2":"done"}}`)
	if took > soon {
		t.Errorf("answered after %v", took)
	}
	for try := 1; ; try++ {
		answer, took = manualOf(t, client, 3, 4)
		expect(t, answer, `{"jobs":{"3":"done","4":"done"}}`)
		if took <= m.config.deliveryTimeout {
			break
		}
		if try == 10 { // on a busy machine one of them may take long
			t.Fatalf("each of %d requests took long, the last %v: a worker that does not answer was tried again", try, took)
		}
	}
	for _, w := range m.registry.all() {
		if load := loadOf(m, w); load != 0 {
			t.Errorf("worker %s is left with a load of %d", w.name(), load)
		}
	}
}

// Of workers that don't answer two are tried for a job. The client is told soon, and the next job
// goes to one that has answered.
func TestJobsAvoidWorkersThatDidNotAnswer(t *testing.T) {
	t.Parallel()
	address, _, _ := serveMaster(t, impatient, "s3cret")
	r := startRelay(t, address)
	good := newRunner()
	close(good.finish)
	for _, name := range []string{"ghost", "phantom", "spectre"} {
		registered(t, r.address, name, []string{"a"}, newRunner().handlers())
		(<-r.made).swallow(true, true)
	}
	registered(t, address, "good", []string{"a"}, good.handlers())
	client := clientOf(t, address)
	answer, took := manualOf(t, client, 1)
	expect(t, answer, `{"errors":{"1":"job 1 was not delivered: worker 'phantom' does not answer"}}`)
	if took > soon {
		t.Errorf("answered after %v", took)
	}
	answer, _ = manualOf(t, client, 2)
	expect(t, answer, `{"jobs":{"2":"done"}}`)
}

// A worker that is only slow to answer gets its job once.
func TestJobIsGivenOnlyWhereItWasNotSent(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	r := startRelay(t, address)
	one, two := newRunner(), newRunner()
	close(two.finish)
	registered(t, r.address, "one", []string{"a"}, one.handlers())
	await(t, m, []string{"a"})
	answer := make(chan json.RawMessage, 1)
	client := clientOf(t, address)
	go func() { answer <- ask(t, client, "run-manual", json.RawMessage(jobList(1))) }()
	until(t, "the job is delivered", func() bool { return one.count() > 0 })
	registered(t, address, "two", []string{"a"}, two.handlers())
	link := <-r.made
	link.swallow(true, true)
	_ = m.registry.all()[0].link.Close() // as the master does when its pings stay unanswered
	expect(t, <-answer, `{"errors":{"1":"the connection to worker 'one' was lost, the outcome is unknown"}}`)
	check.Equal(t, two.count(), 0, "a job that had been delivered was given to another worker")
}

// What else is asked of a worker that does not answer is told as it is, soon.
func TestHalfDeadWorkerIsToldAsSuch(t *testing.T) {
	t.Parallel()
	address, _, _ := serveMaster(t, Config{PingInterval: time.Hour}, "s3cret")
	r := startRelay(t, address)
	registered(t, r.address, "ghost", []string{"a"}, nil)
	(<-r.made).swallow(true, true)
	tests := []struct{ typ, data, want string }{
		{"status", `{"poll_workers":true}`, `{"workers":[{"name":"ghost","workerStatusError":"no answer within 5s","workerStatus":null}]}`},
		{"send-signal", `{"jobs":[{"id":1,"signal":15,"target":"a"}]}`, `{"1":false,"errors":{"1":"worker 'ghost': no answer within 5s"}}`},
		{"pause", `{"targets":["a"]}`, `"worker 'ghost': no answer within 5s"`},
		{"continue", `{}`, `"worker 'ghost': no answer within 5s"`},
	}
	var all sync.WaitGroup
	for _, test := range tests {
		client := clientOf(t, address) // the requests of one client take turns
		all.Go(func() {
			begun := time.Now()
			answer, err := client.Request(within(t), test.typ, json.RawMessage(test.data))
			if err != nil {
				answer, _ = json.Marshal(err.Error())
			}
			expect(t, answer, test.want)
			if took := time.Since(begun); took > soon {
				t.Errorf("%s was answered after %v", test.typ, took)
			}
		})
	}
	all.Wait()
}

// instanceAgent is an agent that says which worker it is.
func instanceAgent(address, instance string, handlers map[string]jobnet.Handler) *Agent {
	agent := agentOf(address, targetsOf("a"), handlers)
	agent.config.Instance = instance
	return agent
}

// A worker that comes back over a new connection is registered once: the old registration, which
// nobody has closed, is replaced, and its client is told.
func TestNewerRegistrationReplacesTheOlder(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{PingInterval: time.Hour}, "s3cret")
	r := startRelay(t, address)
	runner, other := newRunner(), newRunner()
	start(t, instanceAgent(r.address, "one", runner.handlers()).Run)
	start(t, instanceAgent(address, "two", other.handlers()).Run)
	await(t, m, []string{"a"}, []string{"a"})
	client := clientOf(t, address)
	answer := make(chan json.RawMessage, 1)
	old := slices.Clone(m.registry.all())
	go func() {
		raw, _ := client.Request(within(t), "run-manual", json.RawMessage(jobList(1, 2)))
		answer <- raw
	}()
	until(t, "a job is delivered", func() bool { return runner.count() > 0 })
	first := <-r.made
	first.swallow(true, true)
	close(runner.finish) // the answer is lost
	first.lose()
	<-r.made // the agent is back
	until(t, "the worker has registered again", func() bool {
		workers := m.registry.all()
		if len(workers) > 2 {
			t.Fatalf("%d workers are registered, want 2", len(workers))
		}
		return len(workers) == 2 && !slices.Equal(workers, old)
	})
	lost := slices.IndexFunc(old, func(w *worker) bool { return w.link.Err() != nil })
	if lost < 0 || !strings.Contains(old[lost].link.Err().Error(), errReplaced.Error()) {
		t.Error("the link of the older registration was not closed")
	}
	close(other.finish)
	var outcome api.RelayedOutcomes
	if err := json.Unmarshal(<-answer, &outcome); err != nil || len(outcome.Jobs) != 1 || len(outcome.Errors) != 1 {
		t.Fatalf("the client hears %+v, %v", outcome, err)
	}
	for _, text := range outcome.Errors {
		if text != "the connection to worker 'w' was lost, the outcome is unknown" {
			t.Errorf("the client hears: %s", text)
		}
	}
}

// A registration that was sent earlier and arrives later, over an older connection, replaces
// nothing.
func TestOlderConnectionReplacesNothing(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	older, newer := clientOf(t, address), clientOf(t, address)
	ask(t, older, "status", nil) // it is accepted first
	data := api.Registration{Name: "w", Targets: []string{"new"}, Instance: "i"}
	ask(t, newer, "register-worker", data)
	data.Targets = []string{"old"}
	if _, err := older.Request(within(t), "register-worker", data); err == nil || err.Error() != string(errOutdated) {
		t.Errorf("the older connection registered: %v", err)
	}
	await(t, m, []string{"new"})
	data.Instance = "another"
	ask(t, older, "register-worker", data)
	ask(t, clientOf(t, address), "register-worker", api.Registration{Name: "w", Targets: []string{"original"}})
	ask(t, clientOf(t, address), "register-worker", api.Registration{Name: "w", Targets: []string{"original"}})
	await(t, m, []string{"new"}, []string{"old"}, []string{"original"}, []string{"original"})
}

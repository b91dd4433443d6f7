package master

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/must"
)

// nodeOne is the worker of the recordings: its jobs do what testdata/conformance/launch.sh does.
type nodeOne struct {
	mu      sync.Mutex
	running map[string]chan int // signals by job
}

func (n *nodeOne) handlers() map[string]jobnet.Handler {
	ok := func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return "ok", nil }
	return map[string]jobnet.Handler{
		"poll": ok, "pause": ok, "continue": ok, "status": n.status, "run-manual": n.runManual, "send-signal": n.sendSignal,
	}
}

func (n *nodeOne) status(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
	return json.RawMessage(`{"targets":{"a":{"paused":false,"concurrency":10,"length":0},"b":{"paused":false,"concurrency":2,"length":0}},` +
		`"jobPromisesCount":0,"memoryUsage":{"rss":64835584,"heapTotal":18796544,"heapUsed":10877616,"external":2059948,"arrayBuffers":17097}}`), nil
}

func (n *nodeOne) runManual(ctx context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
	request.Proceed()
	var data api.Manual
	if err := json.Unmarshal(request.Data, &data); err != nil {
		return nil, err
	}
	jobs := make(map[string]any)
	for _, id := range data.IDs {
		jobs[strconv.FormatInt(int64(id), 10)] = n.run(ctx, strconv.FormatInt(int64(id), 10))
	}
	return map[string]any{"jobs": jobs}, nil
}

// run runs one job: which, its id's fourth digit tells.
func (n *nodeOne) run(ctx context.Context, id string) map[string]any {
	result := map[string]any{"result": "ok", "code": 0, "signal": nil, "stdout": "", "stderr": ""}
	switch id[3] {
	case '1':
		result["stdout"] = "out " + id + "\n"
	case '2':
		result["result"], result["code"], result["stderr"] = "fail", 7, "bad "+id+"\n"
	case '3':
		select {
		case <-n.signals(id):
			result["result"], result["code"], result["signal"] = "fail", nil, "SIGTERM"
		case <-ctx.Done():
		}
	}
	return result
}

func (n *nodeOne) signals(id string) chan int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running == nil {
		n.running = make(map[string]chan int)
	}
	if n.running[id] == nil {
		n.running[id] = make(chan int)
	}
	return n.running[id]
}

func (n *nodeOne) sendSignal(ctx context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
	request.Proceed() // the job may be asked for by a request behind this one
	var data api.Signals
	if err := json.Unmarshal(request.Data, &data); err != nil {
		return nil, err
	}
	answer := make(map[string]bool)
	for number, signal := range data.Jobs {
		id := fmt.Sprint(number)
		if len(id) < 4 || id[3] != '3' {
			answer[id] = false
			continue
		}
		select {
		case n.signals(id) <- signal: // waits until the job runs
			answer[id] = true
		case <-ctx.Done():
		}
	}
	return answer, nil
}

// The exchanges recorded between clients and the original master. The columns of the table are for
// the whole system's replay.
func TestRecordedMasterExchanges(t *testing.T) {
	t.Parallel()
	type exchange struct {
		Name, To string
		Send     []string
		Receive  []json.RawMessage
	}
	replayed := 0
	for _, e := range recorded[exchange](t, "plain.jsonl") {
		if e.To != "master" {
			continue
		}
		replayed++
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			address, _, _ := serveMaster(t, Config{PokeThrottle: 10 * time.Millisecond}, "")
			registered(t, address, "node-1", []string{"a", "b"}, new(nodeOne).handlers())
			conn := must.Get(net.Dial("tcp", address))(t)
			peer := newWire(t, conn)
			for _, frame := range e.Send {
				peer.send(frame)
			}
			expectAll(t, peer, e.Receive)
		})
	}
	if replayed < 15 {
		t.Errorf("%d exchanges replayed", replayed)
	}
}

// expectAll receives the frames in any order, since each of them answers another request or is one.
// Numbers of requests that the peer chose itself are not compared.
func expectAll(t *testing.T, peer *wire, wanted []json.RawMessage) {
	t.Helper()
	for len(wanted) > 0 {
		got := decoded(t, []byte(peer.receive()))
		var problems []string
		for i, want := range wanted {
			problem := differs(got, decoded(t, want))
			if problem == "" {
				wanted = append(wanted[:i:i], wanted[i+1:]...)
				problems = nil
				break
			}
			problems = append(problems, problem)
		}
		if problems != nil {
			t.Fatalf("received %v, which is none of those wanted: %v", got, problems)
		}
	}
}

// frame is one line of what passed between an original worker and an original master.
type frame struct {
	From  string
	Frame []json.RawMessage
}

func (f frame) kind() string { return string(f.Frame[0]) }

// body is a request's or a response's; its number is left out.
func (f frame) body(t *testing.T) (no json.Number, rest map[string]any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(f.Frame[1])))
	decoder.UseNumber()
	must.Do(t, decoder.Decode(&rest))
	no = rest["no"].(json.Number)
	delete(rest, "no")
	return no, rest
}

func parseFrame(t *testing.T, text string) (f frame) {
	t.Helper()
	must.Do(t, json.Unmarshal([]byte(text), &f.Frame))
	return f
}

// sameRequest compares requests but for their numbers, and gives that of the one received.
func sameRequest(t *testing.T, got, want frame) (no json.Number) {
	t.Helper()
	must.Equal(t, got.kind(), want.kind(), "received %s, want %s", got.Frame, want.Frame)
	no, gotRest := got.body(t)
	_, wantRest := want.body(t)
	must.Equal(t, differs(toAny(t, gotRest), toAny(t, wantRest)), "", "received %s, want %s", got.Frame, want.Frame)
	return no
}

func toAny(t *testing.T, value any) any {
	t.Helper()
	text := must.Get(json.Marshal(value))(t)
	return decoded(t, text)
}

// An original worker, played from the recording, registers with our master and is asked by it what
// the original master asked.
func TestOriginalWorkerUnderOurMaster(t *testing.T) {
	t.Parallel()
	address, _, _ := serveMaster(t, Config{}, "s3cret")
	conn := must.Get(net.Dial("tcp", address))(t)
	lines := recorded[frame](t, "worker-master.jsonl")
	worker := newWire(t, conn)
	register, _ := json.Marshal(lines[0].Frame)
	worker.send(string(register))
	expect(t, json.RawMessage(worker.receive()), fmt.Sprintf("[%s,%s]", lines[1].Frame[0], lines[1].Frame[1]))

	client := connect(t, address, jobnet.LinkConfig{Password: "s3cret"})
	requests := []struct{ typ, data, want string }{
		{"status", `{"poll_workers":true}`, `{"workers":[{"name":"node-1","targets":["a","b"],"workerStatus":{"jobPromisesCount":0}}]}`},
		{"poke", `{"targets":["a"]}`, `"ok"`},
		{"run-manual", `{"jobs":[{"id":900142,"target":"a"},{"id":900242,"target":"b"}]}`, `{"jobs":{"900142":{"code":0},"900242":{"code":7}}}`},
		{"pause", `{"targets":["a"]}`, `"ok"`},
		{"continue", `{}`, `"ok"`},
		{"run-manual", `{"jobs":[{"id":900341,"target":"a"}]}`, `{"jobs":{"900341":{"signal":"SIGTERM"}}}`},
		{"send-signal", `{"jobs":[{"id":900341,"signal":15,"target":"a"}]}`, `{"900341":true}`},
	}
	numbers := make(map[json.Number]json.Number) // ours by the recorded one
	var asked []func()                           // wait for the clients' answers
	for _, line := range lines[2:] {
		switch {
		case line.kind() == "2" || line.kind() == "3": // receive answers pings whenever they come
		case line.From == "master":
			request := requests[len(asked)]
			done := make(chan json.RawMessage, 1)
			go func() {
				answer, err := client.Request(within(t), request.typ, json.RawMessage(request.data))
				if err != nil {
					answer, _ = json.Marshal(err.Error())
				}
				done <- answer
			}()
			asked = append(asked, func() { expect(t, <-done, request.want) })
			theirs, _ := line.body(t)
			numbers[theirs] = sameRequest(t, parseFrame(t, worker.receive()), line)
		default:
			theirs, _ := line.body(t)
			worker.send(fmt.Sprintf("[1,%s]", strings.Replace(string(line.Frame[1]), theirs.String(), numbers[theirs].String(), 1)))
		}
	}
	for _, wait := range asked {
		wait()
	}
}

// Our agent registers with an original master, played from the recording, and answers it as the
// original worker did.
func TestOurAgentUnderOriginalMaster(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	agent := newAgent(AgentConfig{
		Address: listener.Addr().String(), Name: "node-1", Targets: func() []string { return []string{"a", "b"} },
		Handlers: new(nodeOne).handlers(), Password: "s3cret",
	})
	start(t, agent.Run)
	conn := must.Get(listener.Accept())(t)
	master := newWire(t, conn)
	lines := recorded[frame](t, "worker-master.jsonl")
	no := sameRequest(t, parseFrame(t, master.receive()), lines[0])
	master.send(fmt.Sprintf(`[1,{"no":%s,"data":"ok"}]`, no))

	var answers []json.RawMessage // that the agent owes
	for _, line := range lines[2:] {
		text, _ := json.Marshal(line.Frame)
		if line.From == "master" {
			master.send(string(text))
		} else {
			answers = append(answers, text)
		}
	}
	expectAll(t, master, answers)
}

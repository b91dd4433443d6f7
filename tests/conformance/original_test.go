package conformance

import (
	"encoding/json"
	"fmt"
	"net"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// passed is one frame that passed between the original's worker and its master.
type passed struct {
	From  string `json:"from"`
	Frame []any  `json:"frame"`
}

func (p passed) json(t *testing.T) string {
	t.Helper()
	b := must.Get(json.Marshal(p.Frame))(t)
	return string(b)
}

func (p passed) body() map[string]any {
	if len(p.Frame) < 2 {
		return nil
	}
	body, _ := p.Frame[1].(map[string]any)
	return body
}

// generalised is the frame as an expectation: the numbers of requests are their
// sender's to choose, and how much memory it uses is its own.
func (p passed) generalised() any {
	body := p.body()
	if p.kind() != "" {
		body["no"] = anyInteger
	}
	data, _ := body["data"].(map[string]any)
	memory, _ := data["memoryUsage"].(map[string]any)
	for key := range memory {
		memory[key] = anyInteger
	}
	return any(p.Frame)
}

// kind is the request's type, "" where the frame is none.
func (p passed) kind() string {
	kind, _ := p.body()["type"].(string)
	return kind
}

// Our worker cannot tell that the master is not the original's: it registers
// with the same words and answers each request as the original worker did.
func TestOurWorkerUnderAnOriginalMaster(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	db.Insert(t, 900142, "a", "manual")
	db.Insert(t, 900242, "a", "manual")
	db.Insert(t, 900341, "a", "manual")

	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	node1(t, db).With(harness.Settings{
		"password": password, "master_host": host, "master_port": port,
	}).StartWorker(t)
	_ = listener.(*net.TCPListener).SetDeadline(time.Now().Add(harness.Patience))
	conn := must.Get(listener.Accept())(t)
	original := harness.Wrap(t, conn)

	lines := read[passed](t, "worker-master")
	lines[1].body()["no"] = receiveLike(t, original, lines[0]) // the number that our worker chose
	var answers expectation
	for _, line := range lines[1:] {
		if line.From == "worker" {
			answers.frames = append(answers.frames, line.generalised())
			continue
		}
		answers.receive(t, original)
		if line.kind() == "send-signal" {
			awaitRunning(t, db, 900341)
		}
		original.Send(t, line.json(t))
	}
	answers.receive(t, original)
}

// receiveLike takes the next frame, compares it with a recorded request and
// gives the number it bears.
func receiveLike(t *testing.T, wire *harness.Wire, recorded passed) any {
	t.Helper()
	frame, err := wire.Receive(harness.Patience)
	if err != nil {
		t.Fatalf("%v; expected %s", err, recorded.json(t))
	}
	var got passed
	must.Do(t, json.Unmarshal([]byte(frame), &got.Frame), "received %.300q", frame)
	if d := differs(recorded.generalised(), any(got.Frame)); d != "" {
		t.Fatalf("received %.500s instead of %s: %s", frame, recorded.json(t), d)
	}
	return got.body()["no"]
}

// awaitRunning waits until the job's row says so.
func awaitRunning(t *testing.T, db *harness.Database, id int64) {
	t.Helper()
	harness.Until(t, func() string {
		if status := db.Row(t, id).Status; status != "running" {
			return fmt.Sprintf("job %d is %s, not running", id, status)
		}
		return ""
	})
}

// Our master cannot be told from the original's by its workers: it answers the
// registration and pings, and asks with the same requests.
func TestAnOriginalWorkerUnderOurMaster(t *testing.T) {
	t.Parallel()
	master := harness.StartMaster(t, harness.Settings{"password": password, "ping_interval": "5"}) // a worker silent for three of them is left
	lines := read[passed](t, "worker-master")
	original := &scriptedWorker{wire: harness.Dial(t, master.Addr), lines: lines}
	original.wire.Send(t, lines[0].json(t))
	must.Do(t, (&expectation{frames: []any{lines[1].Frame}}).take(original.next(t)), "the answer to the registration")

	client := harness.Dial(t, master.Addr)
	client.Authorise(t, password)
	job := func(id int) map[string]any { return map[string]any{"id": id, "target": "a"} }
	steps := []struct {
		kind, asked string // what the client asks the master, what the master asks the worker
		data        any
		answer      string
	}{
		{"status", "status", map[string]any{"poll_workers": true}, `{"workers":[{"remoteAddr":"127.0.0.1","remotePort":"<int>","name":"node-1","targets":["a","b"],"workerStatus":{"targets":{"a":{"paused":false,"concurrency":10,"length":0},"b":{"paused":false,"concurrency":2,"length":0}},"jobPromisesCount":0}}]}`},
		{"poke", "poll", map[string]any{"targets": []string{"a"}}, `"ok"`},
		{"run-manual", "run-manual", map[string]any{"jobs": []any{job(900142), job(900242)}}, `{"jobs":{"900142":{"result":"ok","code":0,"signal":null,"stdout":"out 900142\n","stderr":""},"900242":{"result":"fail","code":7,"signal":null,"stdout":"","stderr":"bad 900242\n"}}}`},
		{"pause", "pause", map[string]any{"targets": []string{"a"}}, `"ok"`},
		{"continue", "continue", nil, `"ok"`},
	}
	for _, step := range steps {
		no := client.Request(t, step.kind, step.data)
		original.serve(t, step.asked)
		expectAnswer(t, client, no, step.answer)
	}

	// The signal arrives while the client still waits for the job.
	run := client.Request(t, "run-manual", map[string]any{"jobs": []any{job(900341)}})
	answerRun := original.take(t, "run-manual")
	signal := map[string]any{"id": 900341, "signal": 15, "target": "a"}
	kill := client.Request(t, "send-signal", map[string]any{"jobs": []any{signal}})
	original.serve(t, "send-signal")
	expectAnswer(t, client, kill, `{"900341":true}`)
	original.wire.Send(t, answerRun)
	expectAnswer(t, client, run, `{"jobs":{"900341":{"result":"fail","code":null,"signal":"SIGTERM","stdout":"","stderr":""}}}`)

	original.awaitPing(t)
}

// scriptedWorker answers as the recorded worker did.
type scriptedWorker struct {
	wire  *harness.Wire
	lines []passed
	pings int
}

// next is the next frame that is no ping; pings are answered on the way.
func (w *scriptedWorker) next(t *testing.T) string {
	t.Helper()
	for {
		frame := must.Get(w.wire.Receive(harness.Patience))(t)
		if frame != "[2]" {
			return frame
		}
		w.pings++
		w.wire.Send(t, "[3]")
	}
}

func (w *scriptedWorker) awaitPing(t *testing.T) {
	t.Helper()
	for w.pings == 0 {
		frame, err := w.wire.Receive(harness.Patience)
		if err != nil || frame != "[2]" {
			t.Fatalf("want a ping, received %.200q, %v", frame, err)
		}
		w.pings++
	}
}

// serve takes the next request and answers it at once.
func (w *scriptedWorker) serve(t *testing.T, kind string) {
	t.Helper()
	w.wire.Send(t, w.take(t, kind))
}

// take compares the next request with the next recorded one of its type and
// gives the recorded answer, numbered as the request.
func (w *scriptedWorker) take(t *testing.T, kind string) string {
	t.Helper()
	request, answer := w.recorded(t, kind)
	frame := w.next(t)
	var got passed
	must.Do(t, json.Unmarshal([]byte(frame), &got.Frame), "the worker receives %.300q", frame)
	no := got.body()["no"]
	if d := differs(request.generalised(), any(got.Frame)); d != "" {
		t.Fatalf("the master asks %s, not %s: %s", frame, request.json(t), d)
	}
	answer.body()["no"] = no
	return answer.json(t)
}

// recorded is the next recorded request of a type and its answer; both are struck off.
func (w *scriptedWorker) recorded(t *testing.T, kind string) (request, answer passed) {
	t.Helper()
	for i, line := range w.lines {
		if line.From != "master" || line.kind() != kind {
			continue
		}
		for _, later := range w.lines[i:] {
			if later.From == "worker" && later.kind() == "" && later.body()["no"] == line.body()["no"] {
				w.lines = w.lines[i+1:]
				return line, later
			}
		}
	}
	t.Fatalf("no request %s was recorded any more", kind)
	return passed{}, passed{}
}

// expectAnswer waits for the answer to one request.
func expectAnswer(t *testing.T, client *harness.Wire, no int, want string) {
	t.Helper()
	response, ok := client.Answer(t)
	if !ok || response.No != no || response.Error != "" {
		t.Fatalf("request %d was answered with %+v", no, response)
	}
	var wanted, got any
	must.Do(t, json.Unmarshal([]byte(want), &wanted))
	response.Decode(t, &got)
	must.Equal(t, differs(wanted, got), "", "request %d", no)
}

package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// The cases of this file go to a master from each client, and those to a worker, too, that it answers itself, or in
// another way.
func TestClientsOnRealDaemons(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cases := []struct {
		name   string
		run    func(t *testing.T, s *site, l language, ask settings, base int64)
		worker bool
	}{
		{"enqueue, COMMIT, poke", enqueuedJobsRun, true},
		{"ROLLBACK", nothingIsLeftOfARollback, false},
		{"run and wait", runWaits, true},
		{"big output", bigOutputComesWhole, false},
		{"signal", signalsArrive, true},
		{"many ids", manyIdsAreAsked, false},
		{"ids beyond 2^53", idsStayExact, false},
		{"status", statusTells, true},
	}
	for i, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			daemons := []string{"master", "worker"}
			if !test.worker {
				daemons = daemons[:1]
			}
			for j, name := range daemons {
				everywhere(t, func(t *testing.T, n int, l language) {
					base := int64(1_000_000 + 10_000*i + 1000*j + 100*n)
					test.run(t, s, l, s.daemons()[name], base)
				})
			}
		})
	}
}

func enqueuedJobsRun(t *testing.T, s *site, l language, ask settings, _ int64) {
	drivers := []string{""}
	if l.name == "php" {
		drivers = []string{"pdo", "mysqli"}
	}
	for _, driver := range drivers {
		payload := `it's "ünïcode" 😀 \ ` + l.name + driver + ask["JOBCTL_MASTER"]
		told := l.call(ask.with(s.app).with(settings{"APP_DRIVER": driver}), "enqueue", "commit", "mail", "waiting", payload)
		id, err := strconv.ParseInt(told.out, 10, 64)
		if err != nil || s.count(t, "SELECT COUNT(*) FROM orders WHERE text = ?", payload) != 1 {
			t.Errorf("%s %s: enqueue: %v; an id and an order are wanted", l.name, driver, told)
			continue
		}
		if told := l.call(ask, "poke", "mail"); told != (answer{}) {
			t.Errorf("%s: poke: %v", l.name, told)
			continue
		}
		row, err := s.ended(id)
		if want := payload + "\n"; err != nil || row != "mail ok "+want {
			t.Errorf("%s %s: job %d: %q, %v; want %q", l.name, driver, id, row, err, want)
		}
	}
}

func nothingIsLeftOfARollback(t *testing.T, s *site, l language, ask settings, _ int64) {
	payload := "undone " + l.name + ask["JOBCTL_MASTER"]
	if told := l.call(ask.with(s.app), "enqueue", "rollback", "mail", "waiting", payload); told.code != "" || told.out == "" {
		t.Errorf("%s: enqueue: %v", l.name, told)
	}
	for _, statement := range []string{"SELECT COUNT(*) FROM orders WHERE text = ?", "SELECT COUNT(*) FROM jobs WHERE payload = ?"} {
		check.Equal(t, s.count(t, statement, payload), 0, "%s: after ROLLBACK %s gives", l.name, statement)
	}
}

func runWaits(t *testing.T, s *site, l language, ask settings, base int64) {
	for i, target := range []string{"words", "fail", "words"} {
		s.db.Insert(t, base+int64(i), target, map[bool]string{true: "manual", false: "waiting"}[i < 2])
	}
	missing, unserved := base+3, base+4
	s.db.Insert(t, unserved, "nowhere", "manual")
	unlimited := ask.with(settings{"JOBCTL_TIMEOUT": ""})
	told := l.call(unlimited, "run", fmt.Sprintf("%d:words", base), fmt.Sprintf("%d:fail", base+1), fmt.Sprintf("%d:words", base+2),
		fmt.Sprintf("%d:words", missing), fmt.Sprintf("%d:nowhere", unserved))
	got := told.jobs()
	noTarget := fmt.Sprintf("target 'nowhere' not found (job id=%d)", unserved)
	if ask["JOBCTL_MASTER"] == "true" {
		noTarget = "worker serving target 'nowhere' not found"
	}
	want := map[int64]string{
		base:     "ok 0 null Grüße \t\"an\" \\ 😀\n|to stderr\n",
		base + 1: "fail 7 null |broken\n",
		base + 2: "error status = waiting != manual",
		missing:  fmt.Sprintf("error job %d not found", missing),
		unserved: "error " + noTarget,
	}
	check.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "%s: run: %v (%v) want %v", l.name, got, told, want)
}

func bigOutputComesWhole(t *testing.T, s *site, l language, ask settings, base int64) {
	s.db.Insert(t, base, "big", "manual")
	told := l.call(ask, "run", fmt.Sprintf("%d:big", base))
	want := "ok 0 null " + strings.Repeat(`"`, big) + "|"
	if got := told.jobs()[base]; got != want {
		t.Errorf("%s: run: %d bytes, %.60q; want %d (%v)", l.name, len(got), got, len(want), told)
	}
}

func signalsArrive(t *testing.T, s *site, l language, ask settings, base int64) {
	s.db.Insert(t, base, "hold", "manual")
	job := fmt.Sprintf("%d:hold", base)
	if told := l.call(ask, "signal", "15", job); told.out != "false" {
		t.Errorf("%s: signal to what does not run: %v", l.name, told)
	}
	ended := make(chan answer, 1)
	go func() { ended <- l.call(ask, "run", job) }()
	if err := awaitFile(s.heldFile(base)); err != nil {
		t.Errorf("%s: job %d does not start: %v; %v", l.name, base, err, <-ended)
		return
	}
	if told := l.call(ask, "signal", "15", job); told.out != "true" {
		t.Errorf("%s: signal: %v", l.name, told)
	}
	if told := <-ended; told.jobs()[base] != "fail null SIGTERM |" {
		t.Errorf("%s: run of a job that was signalled: %v", l.name, told)
	}
	if told := l.call(ask, "signal", "15", "5:nowhere"); ask["JOBCTL_MASTER"] == "true" {
		if !told.failed(l, "refused") || !strings.Contains(told.text, "worker serving target 'nowhere' not found") {
			t.Errorf("%s: signal to an unknown target: %v", l.name, told)
		}
	} else if told.out != "false" {
		t.Errorf("%s: signal to an unknown target: %v", l.name, told)
	}
}

// A request of more than 64 KiB is taken only behind the password.
func manyIdsAreAsked(t *testing.T, _ *site, l language, ask settings, base int64) {
	jobs := make([]string, 4000)
	first := 10_000 * base
	for i := range jobs {
		jobs[i] = fmt.Sprintf("%d:mail", first+int64(i))
	}
	told := l.call(ask, slices.Concat([]string{"run"}, jobs)...)
	if got := told.jobs(); len(got) != len(jobs) || !strings.HasSuffix(got[first], " not found") {
		t.Errorf("%s: run of %d jobs that are not there: %d answers; %v", l.name, len(jobs), len(got), told)
	}
}

func idsStayExact(t *testing.T, s *site, l language, ask settings, base int64) {
	id := -9_223_372_036_000_000_001 + base // below 0: the ids that the server gives stay as they are
	s.db.Insert(t, id, "words", "manual")
	if told := l.call(ask, "run", fmt.Sprintf("%d:words", id)); !strings.HasPrefix(told.jobs()[id], "ok 0 null") {
		t.Errorf("%s: run of job %d: %v", l.name, id, told)
	}
	if told := l.call(ask, "signal", "0", fmt.Sprintf("%d:words", id)); told.out != "false" {
		t.Errorf("%s: signal to job %d: %v", l.name, id, told)
	}
}

func statusTells(t *testing.T, _ *site, l language, ask settings, _ int64) {
	told := l.call(ask, "status")
	type worker struct {
		Targets map[string]struct{ Concurrency int }
	}
	var status struct {
		worker
		Workers []struct {
			Name         string
			WorkerStatus worker
		}
	}
	err := json.Unmarshal([]byte(told.out), &status)
	if ask["JOBCTL_MASTER"] == "true" {
		if len(status.Workers) != 1 || status.Workers[0].WorkerStatus.Targets["mail"].Concurrency != 10 {
			err = fmt.Errorf("the master tells of %d workers", len(status.Workers))
		}
	} else if status.Targets["mail"].Concurrency != 10 {
		err = fmt.Errorf("the worker tells of %d targets", len(status.Targets))
	}
	if err != nil {
		t.Errorf("%s: status: %v: %v", l.name, err, told)
	}
}

// jobs is what run gave: each job in a line, by its id.
func (a answer) jobs() map[int64]string {
	var told struct {
		Jobs   map[int64]harness.Job
		Errors map[int64]string
	}
	if json.Unmarshal([]byte(a.out), &told) != nil {
		return nil
	}
	all := map[int64]string{}
	for id, job := range told.Jobs {
		code := "null"
		if job.Code != nil {
			code = strconv.Itoa(*job.Code)
		}
		signal := "null"
		if job.Signal != nil {
			signal = *job.Signal
		}
		all[id] = fmt.Sprintf("%s %s %s %s|%s", job.Result, code, signal, job.Stdout, job.Stderr)
	}
	for id, text := range told.Errors {
		all[id] = "error " + text
	}
	return all
}

// What a daemon seldom does, or only in trouble: a peer of the test's own does it.
func TestClientsOnOddPeers(t *testing.T) {
	t.Parallel()
	silent := func(*peer) {}
	cases := []struct {
		name     string
		settings settings
		serve    func(*peer) // has read the request
		code     string      // of the error that is wanted; "" for the answer {"a":1}
		text     string      // is in the error
	}{
		{name: "pings, answers to others and unknown messages come first", serve: func(p *peer) {
			p.send(`[3]`, `[7,"of the future"]`, `[1,{"no":99,"data":{"a":2}}]`, `[2]`)
			if p.receive() == "[3]" {
				p.send(`[1,{"no":1,"data":{"a":1}}]`)
			}
		}},
		{name: "blanks and further items", serve: func(p *peer) {
			p.send("   [1,{\"no\":1,\"data\":{\"a\":1}},\"more\"]")
		}},
		{name: "long work, with an answer to the ping", settings: settings{"JOBCTL_PULSE": "3", "JOBCTL_TIMEOUT": "60"}, serve: func(p *peer) {
			if p.receive() == "[2]" {
				p.send(`[3]`, `[1,{"no":1,"data":{"a":1}}]`)
			}
		}},
		{name: "no answer in time", settings: settings{"JOBCTL_TIMEOUT": "3"}, serve: silent, code: "timeout", text: "did not answer status in time"},
		{name: "no answer to a ping", settings: settings{"JOBCTL_PULSE": "1", "JOBCTL_TIMEOUT": "60"}, serve: silent, code: "lost", text: "answers neither status nor a ping"},
		{name: "the end", serve: func(p *peer) { p.conn.Close() }, code: "lost", text: "before it answered status"},
		{name: "the end within an answer", serve: func(p *peer) {
			fmt.Fprint(p.conn, `[1,{"no":1,"da`)
			p.conn.Close()
		}, code: "lost", text: "before it answered status"},
		{name: "an error", serve: func(p *peer) { p.send(`[1,{"no":1,"error":"it \"can't\" be","code":"over-limit"}]`) }, code: "over-limit", text: `refuses status: it "can't" be`},
		{name: "an error of an older daemon", serve: func(p *peer) { p.send(`[1,{"no":1,"error":"no"}]`) }, code: "refused", text: "refuses status: no"},
		{name: "an error of no request", serve: func(p *peer) { p.send(`[1,{"no":0,"error":"no password came in time"}]`) }, code: "refused", text: "no password came in time"},
		{name: "nonsense", serve: func(p *peer) { p.send(`HTTP/1.1 400 Bad Request`) }, code: "nonsense", text: "HTTP/1.1 400 Bad Request"},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			addr := listen(t, test.serve)
			everywhere(t, func(t *testing.T, _ int, l language) {
				told := l.call(daemon(addr, true, "").with(test.settings), "status")
				switch {
				case test.code == "" && strings.ReplaceAll(told.out, " ", "") != `{"a":1}`:
					t.Errorf("%s: %v", l.name, told)
				case test.code != "" && (!told.failed(l, test.code) || !strings.Contains(told.text, test.text) || !strings.Contains(told.text, addr)):
					t.Errorf("%s: %v; an error %s is wanted: …%s…", l.name, told, test.code, test.text)
				}
			})
		})
	}
}

// Run has no time limit of its own, but takes one.
func TestRunTakesATimeLimit(t *testing.T) {
	t.Parallel()
	addr := listen(t, func(*peer) {})
	everywhere(t, func(t *testing.T, _ int, l language) {
		told := l.call(daemon(addr, true, "").with(settings{"JOBCTL_TIMEOUT": "3"}), "run", "1:a")
		if !told.failed(l, "timeout") || !strings.Contains(told.text, "did not answer run-manual in time") {
			t.Errorf("%s: %v", l.name, told)
		}
	})
}

// The clients ask a master and a worker in the words of docs/protocol.md.
func TestClientsSayWhatIsWritten(t *testing.T) {
	t.Parallel()
	requests := map[string]map[bool]string{ // by words, and whether a master is asked
		"poke a b":     {true: `"type":"poke","data":{"targets":["a","b"]}`, false: `"type":"poll","data":{"targets":["a","b"]}`},
		"run 5:a":      {true: `"type":"run-manual","data":{"jobs":[{"id":5,"target":"a"}]}`, false: `"type":"run-manual","data":{"ids":[5]}`},
		"signal 9 5:a": {true: `"type":"send-signal","data":{"jobs":[{"id":5,"target":"a","signal":9}]}`, false: `"type":"send-signal","data":{"jobs":{"5":9}}`},
	}
	var lock sync.Mutex
	seen := map[string]bool{}
	addr := listenAll(t, func(p *peer, request string) {
		lock.Lock()
		seen[normal(request)] = true
		lock.Unlock()
		p.send(`[1,{"no":1,"data":{}}]`)
	})
	everywhere(t, func(t *testing.T, _ int, l language) {
		for words, want := range requests {
			for master, request := range want {
				secret := l.name + " " + words
				told := l.call(daemon(addr, master, secret), strings.Fields(words)...)
				check.Equal(t, told.code, "", "%s: %s: %v", l.name, words, told)
				whole := normal(fmt.Sprintf(`[0,{"no":1,%s,"password":%q},"codes"]`, request, secret))
				lock.Lock()
				if !seen[whole] {
					t.Errorf("%s: %s, asked of a master: %v: %s did not come; all that came: %v", l.name, words, master, whole, seen)
				}
				lock.Unlock()
			}
		}
	})
}

// peer is the other end of a client's connection.
type peer struct {
	conn   net.Conn
	reader *bufio.Reader
}

func (p *peer) send(messages ...string) {
	for _, message := range messages {
		_, _ = p.conn.Write(append([]byte(message), harness.EOT)) // a client that is gone fails its test itself
	}
}

// receive gives the next message, "" where none comes any more.
func (p *peer) receive() string {
	message, err := p.reader.ReadString(harness.EOT)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(message, string(rune(harness.EOT)))
}

// listen serves each connection: one request is read, then it is the function's, and afterwards it
// stays open until the client closes it.
func listen(t *testing.T, serve func(*peer)) (addr string) {
	t.Helper()
	return listenAll(t, func(p *peer, _ string) { serve(p) })
}

func listenAll(t *testing.T, serve func(p *peer, request string)) (addr string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var connections sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		connections.Wait()
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			connections.Go(func() {
				defer conn.Close()
				p := &peer{conn, bufio.NewReader(conn)}
				if request := p.receive(); request != "" {
					serve(p, request)
				}
				for p.receive() != "" {
				}
			})
		}
	}()
	return listener.Addr().String()
}

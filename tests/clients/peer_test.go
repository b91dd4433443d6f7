package clients

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

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
				if told := l.call(daemon(addr, master, secret), strings.Fields(words)...); told.code != "" {
					t.Errorf("%s: %s: %v", l.name, words, told)
				}
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

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/tests/harness"
)

// Clients that send rubbish, say nothing, are slow or guess passwords, while one that knows the password
// asks for the status all the time: it is answered, and memory stays bounded.
func TestFloods(t *testing.T) {
	t.Parallel()
	const password = "a word that nobody guesses"
	cases := []struct {
		name    string
		clients int
		client  func(ctx context.Context, addr string)
	}{
		{"fuzzed frames", size(8, 16), fuzz},
		{"fuzzed frames behind the password", size(8, 16), func(ctx context.Context, addr string) { fuzzInside(ctx, addr, password) }},
		{"idle connections", size(500, 9000), idle},
		{"slow connections", size(100, 1000), slow},
		{"wrong passwords", size(8, 16), guess},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "", map[string]int{"a": 1}, harness.Settings{"password": password, "log_level_console": "error"})
			worker, _ := s.start(t)
			ctx, cancel := context.WithTimeout(t.Context(), size(3*time.Second, time.Minute))
			defer cancel()
			legitimate := harness.Dial(t, worker.Addr)
			legitimate.Authorise(t, password)
			var flood sync.WaitGroup
			for range c.clients {
				flood.Go(func() { c.client(ctx, worker.Addr) })
			}
			times := ask(t, ctx, legitimate)
			flood.Wait()
			if !worker.Running() || strings.Contains(worker.Output(), "panic") {
				t.Fatalf("the worker did not stand it:\n%s", worker.Output())
			}
			const most = 200 << 20
			peak := harness.MemoryPeak(t, worker.Pid)
			if peak > most {
				t.Errorf("%d MiB of memory", peak>>20)
			}
			s.insert(t, 4, "a")
			legitimate.Ask(t, "poll", nil)
			s.awaitDone(t)
			suite.matrix.add(line{
				fault: "12 " + c.name, runs: c.clients, tally: s.known(t),
				note: fmt.Sprintf("%d answers, p99 %s, memory at most %d MiB", len(times), times[len(times)*99/100].Round(100*time.Microsecond), peak>>20),
			})
		})
	}
}

// ask asks until ctx ends, and gives how long each answer took, in order of time taken.
func ask(t *testing.T, ctx context.Context, client *harness.Wire) (times []time.Duration) {
	t.Helper()
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for ctx.Err() == nil {
		begun := time.Now()
		if response := client.Ask(t, "status", nil); response.Error != "" {
			t.Fatalf("a legitimate client is refused: %s", response.Error)
		}
		times = append(times, time.Since(begun))
		<-pause.C
	}
	slices.Sort(times)
	return times
}

// connect gives connections, one after the other, until ctx ends.
func connect(ctx context.Context, addr string, use func(conn net.Conn)) {
	for ctx.Err() == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			continue // it is being flooded
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		use(conn)
		stop()
		conn.Close()
	}
}

// fuzz sends frames that are nearly right.
func fuzz(ctx context.Context, addr string) {
	connect(ctx, addr, func(conn net.Conn) { fuzzOn(conn) })
}

// fuzzInside does so as a client that may.
func fuzzInside(ctx context.Context, addr, password string) {
	connect(ctx, addr, func(conn net.Conn) {
		if _, err := fmt.Fprintf(conn, "[0,{\"no\":1,\"type\":\"status\",\"password\":%q}]\x04", password); err == nil {
			fuzzOn(conn)
		}
	})
}

func fuzzOn(conn net.Conn) {
	go func() { // so that answers do not stop it
		answers := make([]byte, 1<<16)
		for {
			if _, err := conn.Read(answers); err != nil {
				return
			}
		}
	}()
	for {
		if _, err := conn.Write(frame()); err != nil {
			return
		}
	}
}

// frame is a good frame with some bytes changed, cut, or repeated.
func frame() []byte {
	good := []string{
		`[2]`, `[3]`, `[0,{"no":7,"type":"status"}]`, `[0,{"no":7,"type":"poll","data":{"targets":["a"]}}]`,
		`[0,{"no":7,"type":"run-manual","data":{"ids":[7000001,7000002]}}]`, `[0,{"no":7,"type":"send-signal","data":{"jobs":{"1":15}}}]`,
		`[0,{"no":7,"type":"set-target-concurrency","data":{"target":"a","concurrency":0}}]`, `[1,{"no":7,"data":"ok"}]`,
	}
	b := []byte(good[rand.IntN(len(good))])
	for range rand.IntN(4) {
		at := rand.IntN(len(b))
		switch rand.IntN(4) {
		case 0:
			b[at] = byte(rand.IntN(256))
		case 1:
			b = append(b[:at], b[at:]...)
		case 2:
			b = slices.Insert(b, at, b[rand.IntN(at+1):at]...)
		case 3:
			b = slices.Insert(b, at, []byte(strings.Repeat("[", rand.IntN(2000)))...)
		}
	}
	return append(b, harness.EOT)
}

// idle connects and says nothing.
func idle(ctx context.Context, addr string) {
	connect(ctx, addr, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) })
}

// slow sends a request byte by byte.
func slow(ctx context.Context, addr string) {
	connect(ctx, addr, func(conn net.Conn) {
		pause := time.NewTicker(100 * time.Millisecond)
		defer pause.Stop()
		for i := 0; ; i++ {
			if _, err := conn.Write([]byte(`[0,{"no":1,"type":"status","data":"`)[min(i, 34):][:1]); err != nil {
				return
			}
			<-pause.C
		}
	})
}

// guess tries passwords.
func guess(ctx context.Context, addr string) {
	connect(ctx, addr, func(conn net.Conn) {
		if _, err := fmt.Fprintf(conn, "[0,{\"no\":1,\"type\":\"status\",\"password\":\"%d\"}]\x04", rand.Int()); err == nil {
			_, _ = conn.Read(make([]byte, 1000))
		}
	})
}

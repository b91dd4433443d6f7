package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/store/storetest/must"
)

// Flood is peers of a master that send as much as they can of one thing.
type Flood struct {
	Name  string
	Peers int
	First func(peer int) string // what each sends once; nil: nothing
	Frame func(peer int) string // and then, over and over
}

// MasterFloods are the ways in which peers may want too much of a master.
func MasterFloods() []Flood {
	return []Flood{
		{Name: "registrations of a million targets", Peers: 12, Frame: registration(numbered(1_000_000))},
		{Name: "the longest registrations", Peers: 12, Frame: registration(numbered(10_000))},
		{Name: "requests with 15 MiB that nobody uses", Peers: 4, Frame: constant(
			frame("pause", `{"targets":["a"],"x":"`+strings.Repeat("x", 15<<20)+`"}`))},
		{Name: "the longest requests about journals", Peers: 4, Frame: constant(
			frame("journal-close", `{"cursor":"c","x":"`+strings.Repeat("x", 1_000_000)+`"}`))},
		{Name: "signals to 300,000 jobs", Peers: 4, Frame: constant(frame("send-signal", jobs(300_000)))},
		{Name: "100,000 jobs by hand", Peers: 4, Frame: constant(frame("run-manual", jobs(100_000)))},
		{
			Name: "10,000 remembered pokes and as many targets of like names", Peers: 4,
			First: registration(likeNames(0)), Frame: constant(frame("poke", `{"targets":`+likeNames(10_000)+`}`)),
		},
		{Name: "deep nesting", Peers: 4, Frame: constant(strings.Repeat("[", 7<<20) + strings.Repeat("]", 7<<20))},
		{Name: "status of all workers", Peers: 4, Frame: constant(frame("status", `{"poll_workers":true}`))},
	}
}

func frame(kind, data string) string {
	return fmt.Sprintf(`[0,{"no":1,"type":%q,"data":%s}]`, kind, data)
}

func constant(text string) func(int) string { return func(int) string { return text } }

func registration(targets string) func(int) string {
	return func(peer int) string {
		return frame("register-worker", fmt.Sprintf(`{"name":"flood-%d","targets":%s}`, peer, targets))
	}
}

// list is a JSON array of so many items.
func list(n int, item func(i int) string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = item(i)
	}
	return "[" + strings.Join(items, ",") + "]"
}

func numbered(n int) string {
	return list(n, func(i int) string { return fmt.Sprintf(`"target-%07d"`, i) }) // 17 bytes each
}

func jobs(n int) string {
	return `{"jobs":` + list(n, func(i int) string { return fmt.Sprintf(`{"id":%d,"signal":0,"target":"a"}`, i+1) }) + `}`
}

// likeNames are 10,000 names that differ in case or in spaces at the end only, others for another
// offset.
func likeNames(offset int) string {
	return list(10_000, func(i int) string {
		i += offset
		name := []byte("poked-by-somebody")
		for bit := range name {
			if i>>bit&1 == 1 && name[bit] != '-' {
				name[bit] -= 'a' - 'A'
			}
		}
		return fmt.Sprintf("%q", string(name)+strings.Repeat(" ", i%200))
	})
}

// Start floods until stop is called, which tells how many frames were sent. A peer that is thrown
// out comes back.
func (f Flood) Start(t testing.TB, addr, password string) (stop func() (sent int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	counts := make([]int, f.Peers)
	for peer := range f.Peers {
		first, frame := "", f.Frame(peer)+string(rune(EOT))
		if password != "" {
			first += fmt.Sprintf(`[0,{"no":1,"type":"status","password":%q}]%c`, password, EOT)
		}
		if f.First != nil {
			first += f.First(peer) + string(rune(EOT))
		}
		all.Go(func() {
			for ctx.Err() == nil {
				counts[peer] += flood(ctx, addr, first, frame)
			}
		})
	}
	stop = sync.OnceValue(func() (sent int) {
		cancel()
		all.Wait()
		for _, n := range counts {
			sent += n
		}
		return sent
	})
	t.Cleanup(func() { stop() })
	return stop
}

// flood is one connection, until it breaks or ctx ends. What comes back is read and dropped, but
// for polls.
func flood(ctx context.Context, addr, first, frame string) (sent int) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var reader sync.WaitGroup
	defer reader.Wait()
	defer conn.Close()
	reader.Go(func() { answerAll(conn, conn) })
	if _, err := io.WriteString(conn, first); err != nil {
		return 0
	}
	for ; ; sent++ {
		if _, err := io.WriteString(conn, frame); err != nil {
			return sent
		}
	}
}

// answerAll is a worker that says ok to whatever it is asked.
func answerAll(from io.Reader, to io.Writer) {
	frames := bufio.NewReaderSize(from, 4096)
	for {
		text, err := frames.ReadBytes(EOT)
		if err != nil {
			return
		}
		if len(text) == len("[2]")+1 {
			_, _ = io.WriteString(to, "[3]"+string(rune(EOT)))
			continue
		}
		no := numberOf(text)
		if no > 0 {
			if _, err := fmt.Fprintf(to, `[1,{"no":%d,"data":{}}]%c`, no, EOT); err != nil {
				return
			}
		}
	}
}

// numberOf is the number of a request, which comes first in it; 0 where it is none.
func numberOf(frame []byte) int {
	var kind, no int
	if n, err := fmt.Sscanf(string(frame[:min(len(frame), 40)]), `[%d,{"no":%d`, &kind, &no); n != 2 || err != nil || kind != 0 {
		return 0
	}
	return no
}

// Fleet registers so many workers that serve the target a, and say ok to whatever they are asked.
func Fleet(t testing.TB, master *Daemon, password string, n int) {
	t.Helper()
	for i := range n {
		conn := must.Get(net.Dial("tcp", master.Addr))(t)
		t.Cleanup(func() { conn.Close() })
		data := frame("register-worker", fmt.Sprintf(`{"name":"w%d","targets":["a","b%d"]}`, i, i))
		data = strings.Replace(data, `"no":1,`, fmt.Sprintf(`"no":1,"password":%q,`, password), 1)
		must.Get(io.WriteString(conn, data+string(rune(EOT))))(t)
		go answerAll(conn, conn)
	}
	AwaitWorkers(t, master, password, n)
}

// Honest asks a master what clients ask, a ping, its status and a poke in turn, for so long, and
// gives how long each answer took. It fails the test where one does not come.
func Honest(t testing.TB, master *Daemon, password string, during time.Duration) (took []time.Duration) {
	t.Helper()
	client := Dial(t, master.Addr)
	defer client.Close()
	if password != "" {
		client.Authorise(t, password)
	}
	timed := func(what string, ask func() error) {
		begun := time.Now()
		if err := ask(); err != nil {
			t.Fatalf("%s: %v, after %v", what, err, time.Since(begun))
		}
		took = append(took, time.Since(begun))
	}
	for end := time.Now().Add(during); time.Now().Before(end); {
		timed("ping", func() error {
			client.Send(t, "[2]")
			_, err := client.Receive(Patience)
			return err
		})
		for kind, data := range map[string]any{"status": nil, "poke": map[string]any{"targets": []string{"a"}}} {
			timed(kind, func() error {
				body, err := json.Marshal(data)
				if err != nil {
					return err
				}
				client.Send(t, frame(kind, string(body)))
				_, err = client.Receive(Patience)
				return err
			})
		}
	}
	slices.Sort(took)
	return took
}

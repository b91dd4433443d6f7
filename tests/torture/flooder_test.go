package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// floodVariable makes a flooder of the test program: a process of its own, so that what the attackers need of
// the processors can be told from what they make the worker do.
const floodVariable = "JOBD_TEST_FLOOD"

// flood is what a flooder is to do.
type flood struct {
	Kind     string
	Clients  int
	Addr     string
	Password string // empty: its clients stay outside
	Seed     uint64 // of what they make up
}

// floodKinds are the ways to flood. A client does so on one connection, until it is closed.
var floodKinds = map[string]func(f *flooder, conn net.Conn, random *rand.Rand){
	"fuzz":  (*flooder).fuzz,
	"brief": (*flooder).brief,
	"idle":  (*flooder).idle,
	"slow":  (*flooder).slow,
	"guess": (*flooder).guess,
}

// flooded is what a flooder has done in all.
type flooded struct {
	Connections, Frames atomic.Int64
}

// flooder keeps its clients at work until its stdin ends.
type flooder struct {
	flood
	flooded
	entrance chan struct{} // of those that are about to come in
}

// entrants is how many come in at once: many more would be in each other's way on the same processors.
const entrants = 64

// runFlooder is the main function of a flooder. It prints a line when each client has connected once, and
// one with its counts at the end.
func runFlooder(task string) int {
	f := flooder{entrance: make(chan struct{}, entrants)}
	if err := json.Unmarshal([]byte(task), &f.flood); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the process that holds the other end
		stop()
	}()
	var clients sync.WaitGroup
	for i := range f.Clients {
		clients.Go(func() { f.client(ctx, i) })
	}
	clients.Wait()
	fmt.Println(f.Connections.Load(), f.Frames.Load())
	return 0
}

// client makes connections, one after the other.
func (f *flooder) client(ctx context.Context, number int) {
	flood, dialer := floodKinds[f.Kind], dialerFrom(net.IPv4(127, 0, 1, byte(1+number%16)))
	random := rand.New(rand.NewPCG(f.Seed, uint64(number)))
	for ctx.Err() == nil {
		conn, err := f.connect(ctx, dialer)
		if err != nil {
			continue // it is being flooded
		}
		if f.Connections.Add(1) == int64(f.Clients) {
			fmt.Println("all")
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		flood(f, conn, random)
		stop()
		conn.Close()
	}
}

// dialerFrom makes connections from one of this machine's addresses: with several of them ports do not run
// out, and none is that of the legitimate client.
func dialerFrom(address net.IP) *net.Dialer {
	return &net.Dialer{
		LocalAddr: &net.TCPAddr{IP: address},
		Control: func(_, _ string, raw syscall.RawConn) error {
			return raw.Control(func(fd uintptr) {
				_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, ipBindAddressNoPort, 1) // ports run out without
			})
		},
	}
}

// connect makes one connection, and comes in where that is wanted.
func (f *flooder) connect(ctx context.Context, dialer *net.Dialer) (net.Conn, error) {
	if f.Password == "" {
		return dialer.DialContext(ctx, "tcp", f.Addr)
	}
	f.entrance <- struct{}{}
	defer func() { <-f.entrance }()
	conn, err := dialer.DialContext(ctx, "tcp", f.Addr)
	if err != nil {
		return nil, err
	}
	answer := make([]byte, 4096)
	f.enter(conn, f.Password)
	if n, err := conn.Read(answer); err != nil || !bytes.Contains(answer[:n], []byte(`"data"`)) {
		conn.Close()
		return nil, fmt.Errorf("not let in: %q, %w", answer[:n], err)
	}
	return conn, nil
}

// ipBindAddressNoPort lets the kernel choose the port when it knows the peer, of which syscall has no name.
const ipBindAddressNoPort = 24

// send sends a frame; false where the connection has ended.
func (f *flooder) send(conn net.Conn, frame []byte) bool {
	f.Frames.Add(1)
	_, err := conn.Write(frame)
	return err == nil
}

// enter sends a request with a password.
func (f *flooder) enter(conn net.Conn, password string) bool {
	return f.send(conn, fmt.Appendf(nil, "[0,{\"no\":1,\"type\":\"status\",\"password\":%q}]\x04", password))
}

// fuzz sends frames that are nearly right.
func (f *flooder) fuzz(conn net.Conn, random *rand.Rand) {
	go discard(conn)
	for f.send(conn, mutant(random)) {
	}
}

// brief does so only as long as they are read at once.
func (f *flooder) brief(conn net.Conn, random *rand.Rand) {
	go discard(conn)
	const readAtOnce = 32
	for range readAtOnce {
		if !f.send(conn, mutant(random)) {
			return
		}
	}
}

// discard keeps answers from stopping who asks.
func discard(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// idle says nothing.
func (f *flooder) idle(conn net.Conn, _ *rand.Rand) { discard(conn) }

// slow sends a request byte by byte.
func (f *flooder) slow(conn net.Conn, _ *rand.Rand) {
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	const request = `[0,{"no":1,"type":"status","data":"`
	for i := 0; f.send(conn, []byte{request[min(i, len(request)-1)]}); i++ {
		<-pause.C
	}
}

// guess tries a password.
func (f *flooder) guess(conn net.Conn, random *rand.Rand) {
	if f.enter(conn, fmt.Sprint(random.Int())) {
		discard(conn)
	}
}

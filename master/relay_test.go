package master

import (
	"net"
	"sync"
	"testing"

	"jobd/store/storetest/must"
)

// relay passes connections on to one address. Any of them can be made half dead: what is sent is
// taken, and goes nowhere, and nobody hears of it.
type relay struct {
	address string
	made    chan *relayed // every connection
}

// relayed is one connection through a relay.
type relayed struct {
	mu           sync.Mutex
	deafToServer bool // what the server sends is swallowed
	deafToClient bool
	client       net.Conn
}

func startRelay(t *testing.T, target string) *relay {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := &relay{address: listener.Addr().String(), made: make(chan *relayed, 100)}
	var tasks sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	tasks.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			mu.Lock()
			open = append(open, client, server)
			mu.Unlock()
			c := &relayed{client: client}
			tasks.Go(func() { c.pass(server, client, &c.deafToServer) })
			tasks.Go(func() { c.pass(client, server, &c.deafToClient) })
			r.made <- c
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		tasks.Wait()
	})
	return r
}

// pass passes on what from sends, unless it is swallowed. A swallowed end is not passed on either.
func (c *relayed) pass(from, to net.Conn, deaf *bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		c.mu.Lock()
		swallow := *deaf
		c.mu.Unlock()
		if err != nil {
			if !swallow {
				_ = to.Close()
			}
			return
		}
		if !swallow {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
}

// swallow makes the connection deaf to one end or both.
func (c *relayed) swallow(server, client bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deafToServer, c.deafToClient = server, client
}

// inject sends the client a frame that its server did not send.
func (c *relayed) inject(t *testing.T, frame string) {
	t.Helper()
	must.Get(c.client.Write([]byte(frame + "\x04")))(t)
}

// lose makes the connection half dead for good: the client sees its end, the server does not.
func (c *relayed) lose() {
	c.swallow(true, true)
	_ = c.client.Close()
}

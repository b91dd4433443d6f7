package linkproxy_test

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers every line with itself and reports it.
func echo(t *testing.T) (addr string, lines <-chan string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	heard := make(chan string, 10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				reader := bufio.NewReader(conn)
				for {
					line, err := reader.ReadString('\n')
					if line != "" {
						heard <- line
					}
					if err != nil {
						return
					}
					if _, err := io.WriteString(conn, line); err != nil {
						return
					}
				}
			}()
		}
	}()
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String(), heard
}

func TestFaults(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		arm   func(*linkproxy.Proxy) linkproxy.Broken
		heard string // by the server, of the line "COMMIT\n"; "" nothing
	}{
		{"unsent", func(p *linkproxy.Proxy) linkproxy.Broken { return p.Break("COMMIT", linkproxy.Unsent) }, ""},
		{"unanswered", func(p *linkproxy.Proxy) linkproxy.Broken { return p.Break("COMMIT", linkproxy.Unanswered) }, "COMMIT\n"},
		{"held", func(p *linkproxy.Proxy) linkproxy.Broken { return p.Break("COMMIT", linkproxy.Held) }, "COMMIT\n"},
		{"cut after three bytes", func(p *linkproxy.Proxy) linkproxy.Broken {
			p.CutAfter(3)
			return linkproxy.Broken{}
		}, "COM"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr, heard := echo(t)
			proxy := must.Get(linkproxy.Start(addr))(t)
			client := must.Get(net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(proxy.Port())))(t)
			defer client.Close()
			exchange(t, client, "hello\n")
			<-heard

			broken := c.arm(proxy)
			must.Get(io.WriteString(client, "COMMIT\n"))(t)
			if n, err := client.Read(make([]byte, 1)); err == nil {
				t.Errorf("the client heard %d bytes of an answer", n)
			}
			if broken.Done != nil {
				<-broken.Done
			}
			if c.name == "held" {
				select {
				case line := <-heard:
					t.Errorf("the server heard %q before the release", line)
				default:
				}
				broken.Release()
			}
			if c.heard != "" {
				if line := <-heard; line != c.heard {
					t.Errorf("the server heard %q, want %q", line, c.heard)
				}
			}
			must.Do(t, proxy.Close())
			select {
			case line := <-heard:
				t.Errorf("the server also heard %q", line)
			default:
			}
		})
	}
}

func exchange(t *testing.T, conn net.Conn, line string) {
	t.Helper()
	must.Get(io.WriteString(conn, line))(t)
	got := make([]byte, len(line))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != line {
		t.Fatalf("echo of %q: %q, %v", line, got, err)
	}
}

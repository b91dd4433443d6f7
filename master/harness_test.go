package master

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/freeport"
	"jobd/store/storetest/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of the tests: a test that reaches it has failed.
const patience = 2 * time.Minute

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// start runs f until the test ends.
func start(t testing.TB, f func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	var stopped bool
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, jobnet.ErrLinkClosed) {
			t.Errorf("ended with: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// serveMaster runs a master with its server.
func serveMaster(t testing.TB, config Config, password string) (address string, m *Master, stop func()) {
	t.Helper()
	listener := listen(t)
	m = New(config)
	stopMaster := start(t, m.Run)
	stopServer := serve(t, jobnet.NewServer(jobnet.ServerConfig{Handlers: m.Handlers(), Password: password}), listener)
	return listener.Addr().String(), m, func() { stopServer(); stopMaster() }
}

// listen listens where nobody else does, also while this listener is closed.
func listen(t testing.TB) net.Listener {
	t.Helper()
	port := must.Get(freeport.Take())(t)
	return listenAt(t, freeport.Address(port))
}

// listenAt listens where somebody has listened before.
func listenAt(t testing.TB, address string) net.Listener {
	t.Helper()
	listener := must.Get(net.Listen("tcp", address))(t)
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// serve runs a server.
func serve(t testing.TB, server *jobnet.Server, listener net.Listener) (stop func()) {
	t.Helper()
	return start(t, func(ctx context.Context) error {
		err := server.Serve(ctx, listener)
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Shutdown(ended)
		return err
	})
}

// known is a client's link, and its address as the server sees it.
func known(t testing.TB, address string) (link *jobnet.Link, own string) {
	t.Helper()
	conn := must.Get(net.Dial("tcp", address))(t)
	link = jobnet.NewLink(conn, jobnet.LinkConfig{Password: "s3cret"})
	start(t, link.Run)
	return link, conn.LocalAddr().String()
}

// connect gives a running link.
func connect(t testing.TB, address string, config jobnet.LinkConfig) *jobnet.Link {
	t.Helper()
	link := must.Get(jobnet.Connect(within(t), address, config))(t)
	start(t, link.Run)
	return link
}

// registered gives the link of a worker that registered itself.
func registered(t testing.TB, address, name string, targets []string, handlers map[string]jobnet.Handler) *jobnet.Link {
	t.Helper()
	link := connect(t, address, jobnet.LinkConfig{Handlers: handlers, Password: "s3cret"})
	ask(t, link, "register-worker", api.Registration{Name: name, Targets: targets})
	return link
}

// ask asks and expects an answer.
func ask(t testing.TB, link *jobnet.Link, typ string, data any) json.RawMessage {
	t.Helper()
	answer := must.Get(link.Request(within(t), typ, data))(t)
	return answer
}

// expect compares JSON: objects may have more keys, "<int>" stands for any integer.
func expect(t testing.TB, got json.RawMessage, want string) {
	t.Helper()
	check.Equal(t, differs(decoded(t, got), decoded(t, []byte(want))), "", "got %s want %s", got, want)
}

func differs(got, want any) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%v is no object", got)
		}
		for key := range want {
			if problem := differs(object[key], want[key]); problem != "" {
				return key + ": " + problem
			}
		}
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Sprintf("%v is not a list of %d", got, len(want))
		}
		for i := range want {
			if problem := differs(list[i], want[i]); problem != "" {
				return fmt.Sprintf("item %d: %s", i, problem)
			}
		}
	default:
		number, isNumber := got.(float64)
		if want == "<int>" && isNumber && number == float64(int64(number)) {
			return ""
		}
		if !reflect.DeepEqual(got, want) {
			return fmt.Sprintf("%v is not %v", got, want)
		}
	}
	return ""
}

func decoded(t testing.TB, text []byte) (value any) {
	t.Helper()
	must.Do(t, json.Unmarshal(text, &value), "%s", text)
	return value
}

// wire is a peer that speaks bytes.
type wire struct {
	t      testing.TB
	conn   net.Conn
	reader *bufio.Reader
}

func newWire(t testing.TB, conn net.Conn) *wire {
	t.Helper()
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &wire{t, conn, bufio.NewReader(conn)}
}

func (w *wire) send(frame string) {
	w.t.Helper()
	must.Get(w.conn.Write([]byte(frame + "\x04")))(w.t)
}

// receive gives the next frame that is no ping, and answers pings.
func (w *wire) receive() string {
	w.t.Helper()
	for {
		frame := must.Get(w.reader.ReadString(4))(w.t)
		if frame != "[2]\x04" {
			return strings.TrimSuffix(frame, "\x04")
		}
		w.send(`[3]`)
	}
}

// anybody may do everything.
var anybody = principal.Known("", "", "")

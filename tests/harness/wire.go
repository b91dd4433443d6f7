package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// EOT ends every frame.
const EOT = 0x04

// Wire is a client that knows frames and nothing else. It is for one goroutine.
type Wire struct {
	conn   net.Conn
	reader *bufio.Reader
	no     int
}

// Dial connects to a daemon; the connection is closed when the test ends.
func Dial(t testing.TB, addr string) *Wire {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, Patience)
	if err != nil {
		t.Fatalf("connect to %s: %v", addr, err)
	}
	return Wrap(t, conn)
}

// Wrap speaks the protocol over a connection that somebody else opened.
func Wrap(t testing.TB, conn net.Conn) *Wire {
	t.Cleanup(func() { conn.Close() })
	return &Wire{conn: conn, reader: bufio.NewReaderSize(conn, 1<<16)}
}

// Close closes the connection.
func (w *Wire) Close() { w.conn.Close() }

// Send sends frames as they are, each with its end.
func (w *Wire) Send(t testing.TB, frames ...string) {
	t.Helper()
	var packet strings.Builder
	for _, frame := range frames {
		packet.WriteString(frame)
		packet.WriteByte(EOT)
	}
	if err := w.Write([]byte(packet.String())); err != nil {
		t.Fatalf("send %.100q: %v", frames, err)
	}
}

// Write sends bytes as they are.
func (w *Wire) Write(b []byte) error {
	_ = w.conn.SetWriteDeadline(time.Now().Add(Patience))
	_, err := w.conn.Write(b)
	return err
}

// Receive gives the next frame without its end; io.EOF where the peer closed
// the connection, os.ErrDeadlineExceeded where nothing came within patience.
func (w *Wire) Receive(patience time.Duration) (string, error) {
	_ = w.conn.SetReadDeadline(time.Now().Add(patience))
	frame, err := w.reader.ReadString(EOT)
	if err != nil {
		return frame, err
	}
	return strings.TrimSuffix(frame, string(rune(EOT))), nil
}

// Closed waits until the peer has closed the connection; frames that came
// before are returned.
func (w *Wire) Closed(t testing.TB) []string {
	t.Helper()
	var frames []string
	for {
		frame, err := w.Receive(Patience)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the connection is still open after %s", Patience)
		}
		if err != nil { // end of file or reset: both are closed
			if err != io.EOF && frame != "" {
				t.Logf("the connection ended inside a frame: %.100q: %v", frame, err)
			}
			return frames
		}
		frames = append(frames, frame)
	}
}

// Authorise sends the password once; from then on the connection needs none.
func (w *Wire) Authorise(t testing.TB, password string) {
	t.Helper()
	w.no++
	w.Send(t, fmt.Sprintf(`[0,{"no":%d,"type":"status","password":%q}]`, w.no, password))
	if response, ok := w.Answer(t); !ok || response.Error != "" {
		t.Fatalf("the password is refused: %q", response.Error)
	}
}

// Response is the answer to a request.
type Response struct {
	No    int             `json:"no"`
	Data  json.RawMessage `json:"data"`
	Error string          `json:"error"`
}

// Ask sends a request and waits for its answer; frames for other requests are dropped.
func (w *Wire) Ask(t testing.TB, kind string, data any) Response {
	t.Helper()
	no := w.Request(t, kind, data)
	for {
		if response, ours := w.Answer(t); ours && response.No == no {
			return response
		}
	}
}

// Request sends a request and gives its number.
func (w *Wire) Request(t testing.TB, kind string, data any) int {
	t.Helper()
	w.no++
	body, err := json.Marshal([]any{0, map[string]any{"no": w.no, "type": kind, "data": data}})
	if err != nil {
		t.Fatalf("request %s: %v", kind, err)
	}
	w.Send(t, string(body))
	return w.no
}

// Answer gives the next frame where it is a response, false where it is something else.
func (w *Wire) Answer(t testing.TB) (Response, bool) {
	t.Helper()
	frame, err := w.Receive(2 * Patience)
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	var kind int
	var response Response
	parts := []any{&kind, &response}
	if err := json.Unmarshal([]byte(frame), &parts); err != nil {
		t.Fatalf("receive %.200q: %v", frame, err)
	}
	return response, kind == 1
}

// Decode unpacks a response's data and fails the test where it is an error.
func (r Response) Decode(t testing.TB, into any) {
	t.Helper()
	if r.Error != "" {
		t.Fatalf("request %d was refused: %s", r.No, r.Error)
	}
	if err := json.Unmarshal(r.Data, into); err != nil {
		t.Fatalf("response %.200s: %v", r.Data, err)
	}
}

// Jobs is what run-manual answers.
type Jobs struct {
	Jobs   map[string]Job    `json:"jobs"`
	Errors map[string]string `json:"errors"`
}

// Job is how one job ended.
type Job struct {
	Result string  `json:"result"`
	Code   *int    `json:"code"`
	Signal *string `json:"signal"`
	Stdout string  `json:"stdout"`
	Stderr string  `json:"stderr"`
}

// String is for test failures: output is cut.
func (j Job) String() string {
	code, signal := "null", "null"
	if j.Code != nil {
		code = fmt.Sprint(*j.Code)
	}
	if j.Signal != nil {
		signal = *j.Signal
	}
	return fmt.Sprintf("{result %s, code %s, signal %s, stdout %.80q, stderr %.200q}", j.Result, code, signal, j.Stdout, j.Stderr)
}

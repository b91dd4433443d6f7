// Package client is a client of jobd for Go: one file, the standard library only. Copy it.
//
//	jobs := &client.Client{Addr: "127.0.0.1:7081", Password: "something long"} // a master
//	id, err := client.Enqueue(ctx, tx, "mail", map[string]any{"payload": "…"}) // in your transaction
//	err = tx.Commit()
//	err = jobs.Poke(ctx, "mail") // after COMMIT: nobody sees the row earlier
//
// A Client keeps no connection: each request makes its own. docs/clients.md says more,
// docs/protocol.md what else a daemon can be asked.
package client

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	eot     = 4         // the byte that ends each message
	exact   = 1<<53 - 1 // an id beyond it goes as a string: many languages would round the number
	longest = 64 << 20  // bytes of an answer
)

// objects are the requests that are answered with an object.
var objects = []string{"run-manual", "send-signal", "status"}

// Client asks one daemon. It may be used by several goroutines at once.
type Client struct {
	Addr     string // host:port; of masters also several: "a:7081, b:7081"
	Worker   bool   // a worker listens there, not a master
	Password string
	Timeout  time.Duration // for a connection, and for all requests but Run; 10 s where it is 0
	Pulse    time.Duration // of silence, after which the daemon must answer a ping; 30 s where it is 0

	others bool // follow it in a list: it must answer a ping before it is asked
}

// short is how long one of several daemons may take for a ping or a poke, while others follow.
const short = 300 * time.Millisecond

// Error is what went wrong. Code is jobd's (docs/protocol.md), or one of the client's own:
// unreachable (nothing was asked), timeout and lost (it may have been done), nonsense (this is no
// jobd).
type Error struct {
	Text, Code string
	Cause      error // may be nil
}

func (e *Error) Error() string { return e.Text }
func (e *Error) Unwrap() error { return e.Cause }

// Execer is a *sql.Tx, or a *sql.DB or *sql.Conn.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Enqueue inserts a row into the table jobs, in the transaction that tx is, and gives its id.
// columns are the row's others, as {"status": "manual"} or your own; their names come from the
// program, never from outside.
func Enqueue(ctx context.Context, tx Execer, target string, columns map[string]any) (int64, error) {
	row := map[string]any{"target": target, "time_created": time.Now().Unix()}
	maps.Copy(row, columns)
	names := slices.Sorted(maps.Keys(row))
	values := make([]any, len(names))
	for i, name := range names {
		if name == "" || strings.ContainsAny(name, "`%?") {
			return 0, fmt.Errorf("insert a job: %q is no name of a column", name)
		}
		values[i] = row[name]
	}
	statement := fmt.Sprintf("INSERT INTO jobs (`%s`) VALUES (?%s)",
		strings.Join(names, "`, `"), strings.Repeat(", ?", len(names)-1))
	result, err := tx.ExecContext(ctx, statement, values...)
	if err != nil {
		return 0, fmt.Errorf("insert a job: %w", err)
	}
	return result.LastInsertId()
}

// Poke tells the workers that rows of these targets wait. Call it after COMMIT.
func (c *Client) Poke(ctx context.Context, targets ...string) error {
	kind := "poke"
	if c.Worker {
		kind = "poll"
	}
	return c.Request(ctx, kind, map[string]any{"targets": targets}, nil)
}

// Outcomes is how the jobs of a Run ended, and why some did not run.
type Outcomes struct {
	Jobs   map[int64]Outcome `json:"jobs"`
	Errors map[int64]string  `json:"errors"`
}

// Outcome is how a job ended: Code is nil where a signal ended it, Signal where none did.
type Outcome struct {
	Result         string // ok or fail
	Code           *int
	Signal         *string
	Stdout, Stderr string
}

// Run runs rows whose status is manual, targets by id, and waits until they have ended, or ctx has.
func (c *Client) Run(ctx context.Context, jobs map[int64]string) (Outcomes, error) {
	type job struct {
		ID     any    `json:"id"`
		Target string `json:"target"`
	}
	var named []job
	var ids []any
	for id, target := range jobs {
		named, ids = append(named, job{number(id), target}), append(ids, number(id))
	}
	data := map[string]any{"jobs": named}
	if c.Worker {
		data = map[string]any{"ids": ids}
	}
	var answer Outcomes
	err := c.ask(ctx, "run-manual", data, &answer)
	return answer, err
}

// Signal sends a running job a signal, as 15, and tells whether it was delivered.
func (c *Client) Signal(ctx context.Context, id int64, target string, signal int) (bool, error) {
	name := strconv.FormatInt(id, 10)
	var jobs any = []map[string]any{{"id": number(id), "target": target, "signal": signal}}
	if c.Worker {
		jobs = map[string]int{name: signal}
	}
	var answer map[string]json.RawMessage
	if err := c.Request(ctx, "send-signal", map[string]any{"jobs": jobs}, &answer); err != nil {
		return false, err
	}
	var failed map[string]string
	if told := answer["errors"]; len(told) > 0 {
		if err := json.Unmarshal(told, &failed); err != nil {
			return false, c.failure(err, "nonsense", "answers send-signal with other data: %v", err)
		}
	}
	if failed[name] != "" {
		return false, &Error{Text: failed[name], Code: "refused"}
	}
	return string(answer[name]) == "true", nil
}

// Status is what the worker, or the master and all its workers, tell of themselves, as JSON.
func (c *Client) Status(ctx context.Context) (answer json.RawMessage, err error) {
	err = c.Request(ctx, "status", map[string]any{"poll_workers": true}, &answer)
	return answer, err
}

// Request asks anything of docs/protocol.md, and decodes the answer's data into answer, unless that
// is nil.
func (c *Client) Request(ctx context.Context, kind string, data, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	return c.ask(ctx, kind, data, answer)
}

func (c *Client) timeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return 10 * time.Second
}

// ask asks the daemon. Of several the first that answers a ping is asked, and no other one what that one
// may have been asked; a poke goes to all, since what one has taken is lost with it.
func (c *Client) ask(ctx context.Context, kind string, data, answer any) (err error) {
	addrs := strings.Split(c.Addr, ",")
	if len(addrs) == 1 {
		return c.askOne(ctx, kind, data, answer)
	}
	pokes, poked := kind == "poke" || kind == "poll", false
	for i, addr := range addrs {
		one := *c
		one.Addr, one.others = strings.TrimSpace(addr), i < len(addrs)-1
		within, cancel := ctx, context.CancelFunc(func() {})
		if pokes && (one.others || poked) {
			within, cancel = context.WithTimeout(ctx, short)
		}
		err = one.askOne(within, kind, data, answer)
		cancel()
		poked = poked || err == nil
		var told *Error
		if !pokes && (!errors.As(err, &told) || told.Code != "unreachable") {
			return err
		}
	}
	if poked {
		return nil
	}
	return err
}

func (c *Client) askOne(ctx context.Context, kind string, data, answer any) error {
	message, err := c.message(1, kind, data)
	if err != nil {
		return err
	}
	if len(message) > 60000 { // what is longer is taken only from those who gave the password
		proof, _ := c.message(2, "status", nil)
		message = append(proof, message...)
	}
	dialer := net.Dialer{Timeout: c.timeout()}
	if c.others {
		dialer.Timeout = min(dialer.Timeout, short)
	}
	link, err := dialer.DialContext(ctx, "tcp", c.Addr)
	if err != nil {
		return c.failure(err, "unreachable", "can't be reached: %v", err)
	}
	defer link.Close()
	defer context.AfterFunc(ctx, func() { link.Close() })()
	if c.others {
		_ = link.SetDeadline(time.Now().Add(short)) // a process that is stopped takes connections, too
		pong := make([]byte, len("[3]")+1)
		if _, err = link.Write([]byte{'[', '2', ']', eot}); err == nil {
			_, err = io.ReadFull(link, pong)
		}
		if err != nil {
			return c.failure(err, "unreachable", "can't be reached: it answers no ping: %v", err)
		}
		_ = link.SetDeadline(time.Time{})
	}
	if _, err = link.Write(message); err == nil {
		err = c.await(link, kind, answer)
	}
	var told *Error
	switch {
	case err == nil || errors.As(err, &told):
		return err
	case ctx.Err() != nil:
		return c.failure(ctx.Err(), "timeout", "did not answer %s in time", kind)
	case errors.Is(err, io.EOF):
		return c.failure(err, "lost", "closed the connection before it answered %s", kind)
	}
	return c.failure(err, "lost", "was lost before it answered %s: %v", kind, err)
}

func (c *Client) message(no int, kind string, data any) ([]byte, error) {
	body := map[string]any{"no": no, "type": kind, "data": data, "password": c.Password}
	message, err := json.Marshal([]any{0, body, "codes"})
	return append(message, eot), err
}

// await reads until the answer is there.
func (c *Client) await(link net.Conn, kind string, into any) error {
	pulse := c.Pulse
	if pulse <= 0 {
		pulse = 30 * time.Second
	}
	var message []byte
	pinged := false
	for reader := bufio.NewReaderSize(link, 1<<16); ; {
		_ = link.SetReadDeadline(time.Now().Add(pulse)) // where it is closed, reading says so
		piece, err := reader.ReadSlice(eot)
		message = append(message, piece...)
		switch {
		case len(message) > longest:
			return c.failure(nil, "nonsense", "answers %s with more than %d bytes", kind, longest)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, os.ErrDeadlineExceeded) && (!pinged || len(piece) > 0):
			if _, err := link.Write([]byte{'[', '2', ']', eot}); err != nil {
				return err
			}
			pinged = true
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			return c.failure(err, "lost", "answers neither %s nor a ping", kind)
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(message)) > 0 && bytes.TrimSpace(message)[0] != '[':
			return c.failure(nil, "nonsense", "answers %s with what is no message: %.80q", kind, message)
		case err != nil:
			return err
		}
		pinged = false
		done, err := c.take(link, message[:len(message)-1], kind, into)
		if done || err != nil {
			return err
		}
		message = message[:0]
	}
}

// take reads one message, and tells whether it was the answer.
func (c *Client) take(link net.Conn, message []byte, kind string, into any) (done bool, err error) {
	var items []json.RawMessage
	var what int
	var answer struct {
		No          int
		Data        json.RawMessage
		Error, Code string
	}
	err = json.Unmarshal(message, &items)
	if err == nil && len(items) > 0 {
		err = json.Unmarshal(items[0], &what)
	}
	if err == nil && what == 1 && len(items) > 1 {
		err = json.Unmarshal(items[1], &answer)
	}
	if err != nil || len(items) == 0 {
		return false, c.failure(err, "nonsense", "answers %s with what is no message: %.80q", kind, message)
	}
	switch {
	case what == 2:
		_, err := link.Write([]byte{'[', '3', ']', eot})
		return false, err
	case what == 1 && answer.Error != "": // there is nothing else it could be about
		if answer.Code == "" {
			answer.Code = "refused"
		}
		return false, c.failure(nil, answer.Code, "refuses %s: %s", kind, answer.Error)
	case what != 1 || answer.No != 1:
		return false, nil
	case slices.Contains(objects, kind) && !strings.HasPrefix(string(answer.Data), "{"):
		return true, c.failure(nil, "nonsense", "answers %s with other data: %.80q", kind, answer.Data)
	case into == nil:
		return true, nil
	}
	if err := json.Unmarshal(answer.Data, into); err != nil {
		return false, c.failure(err, "nonsense", "answers %s with other data: %v", kind, err)
	}
	return true, nil
}

func (c *Client) failure(cause error, code, format string, args ...any) error {
	program := "jobd-master"
	if c.Worker {
		program = "jobd"
	}
	return &Error{fmt.Sprintf("%s at %s %s", program, c.Addr, fmt.Sprintf(format, args...)), code, cause}
}

// number is an id on the wire.
func number(id int64) any {
	if -exact <= id && id <= exact {
		return id
	}
	return strconv.FormatInt(id, 10)
}

package operator

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"jobd/cmd/internal/exit"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Config says how a daemon is reached.
type Config struct {
	Address  string                                        // host:port, or a unix socket's path
	Others   []string                                      // masters beside that at Address: the first that answers is asked, and a poke goes to all
	First    string                                        // a socket that is tried before Address; the one that is reached stays; "": none
	Master   bool                                          // a master is to be there, else a worker
	Password string                                        // "": none
	Ask      func() (string, error)                        // asks a person for it before the first link is made; nil: nobody is asked
	TLS      func(host string) func() (*tls.Config, error) // gives that of a link; see jobnet.LinkConfig
	Dial     func(ctx context.Context) (net.Conn, error)   // connects to the daemon where that is this process; nil: Address is called
	Patience time.Duration                                 // with each answer; 0: no limit, or one for the whole run
	Logger   *slog.Logger

	WorkersTime time.Duration // for which a master waits for how its workers stand; 0: as long as it does
}

// Daemon is a worker or a master. Its link is made when it is first needed, and made anew by the
// first request after it was lost. Its methods are safe for concurrent use.
type Daemon struct {
	Config

	mu   sync.Mutex
	line *line // nil: there is none
}

// line is a link, and what is known of its other end.
type line struct {
	*jobnet.Link
	ended chan struct{} // closed when its goroutine has ended
	meant bool          // the daemon that was meant is there
}

// What a daemon may answer, in bytes, and how long one answer may take once begun: the outputs of
// many jobs at once, over a slow link.
const (
	maxAnswer     = 256 << 20
	answerTimeout = time.Hour
)

// New gives a daemon; nothing is asked of it yet.
func New(c Config) *Daemon { return &Daemon{Config: c} }

// Close ends the link that there is.
func (d *Daemon) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hangUp()
}

// Move says that the daemon is at another address from now on.
func (d *Daemon) Move(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hangUp()
	d.Address = address
}

// Where is the address that was reached, or that is tried.
func (d *Daemon) Where() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Address
}

// hangUp ends the link. Callers must hold d.mu.
func (d *Daemon) hangUp() {
	if d.line != nil {
		d.line.Close()
		<-d.line.ended
	}
	d.line = nil
}

// drop ends a link over which no answer came, unless there is another one by now.
func (d *Daemon) drop(lost *line) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.line == lost {
		d.hangUp()
	}
}

// dial gives the link that there is, or a new one.
func (d *Daemon) dial(ctx context.Context) (*line, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.line != nil && d.line.Err() == nil {
		return d.line, nil
	}
	d.hangUp()
	if d.Config.Ask != nil {
		password, err := d.Config.Ask()
		if err != nil {
			return nil, &unasked{err}
		}
		d.Password, d.Config.Ask = password, nil
	}
	var missed []error
	for i := range 1 + len(d.Others) {
		l, err := d.connect(ctx, i < len(d.Others))
		if err == nil {
			d.line = l
			return l, nil
		}
		if missed = append(missed, err); len(missed) > len(d.Others) || exit.Interrupted(ctx) {
			break
		}
		d.Address, d.Others = d.Others[0], append(slices.Clone(d.Others[1:]), d.Address)
	}
	if len(missed) == 1 {
		return nil, missed[0]
	}
	return nil, exit.Join(missed...)
}

// answersWithin is how long one of several masters may take until the next one is asked.
const answersWithin = 300 * time.Millisecond

// connect makes a link to the daemon at Address. Where others follow it must answer a ping first, soon: a
// process that is stopped takes connections, too. Nothing was asked of it then. Callers must hold d.mu.
func (d *Daemon) connect(ctx context.Context, othersFollow bool) (*line, error) {
	patience := d.Patience
	if othersFollow {
		patience = answersWithin
	}
	dialing, cancel := within(ctx, patience)
	defer cancel()
	conn, tried, err := d.reach(dialing)
	if host, _, _ := net.SplitHostPort(d.Address); err == nil && d.TLS != nil {
		conn, err = jobnet.Secure(dialing, conn, d.TLS(host))
	}
	if err != nil {
		err = fmt.Errorf("no connection to %s: %w", tried, exit.Why(dialing, err))
		if exit.Interrupted(ctx) {
			return nil, exit.Why(ctx, err)
		}
		return nil, exit.With(exit.Connect, err)
	}
	l := &line{ended: make(chan struct{}), meant: d.Dial != nil}
	l.Link = jobnet.NewLink(conn, jobnet.LinkConfig{
		Password: d.Password, MaxMessageSize: maxAnswer, FrameTimeout: answerTimeout, Logger: d.Logger, Codes: true,
	})
	go func() {
		defer close(l.ended)
		_ = l.Run(context.WithoutCancel(ctx)) // the request tells why the link ended
	}()
	if othersFollow {
		if err := l.Ping(dialing); err != nil {
			l.Close()
			<-l.ended
			return nil, exit.With(exit.Connect, fmt.Errorf("no connection to %s: it answers no ping: %w", tried, exit.Why(dialing, err)))
		}
	}
	return l, nil
}

// several tells whether there is more than one master.
func (d *Daemon) several() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.Others) > 0
}

// pokeAll pokes all masters, and is done when one has answered: what a single one has taken is lost
// with it.
func (d *Daemon) pokeAll(ctx context.Context, data any) (answer json.RawMessage, err error) {
	d.mu.Lock()
	config, addresses := d.Config, append([]string{d.Address}, d.Others...)
	d.mu.Unlock()
	config.Others = nil
	var missed []error
	for i, address := range addresses {
		one := New(config)
		if one.Address = address; i < len(addresses)-1 || answer != nil {
			one.Patience = answersWithin
		}
		got, err := one.Ask(ctx, api.Poke.Name, data)
		one.Close()
		if err != nil {
			missed = append(missed, err)
		} else if answer == nil {
			answer = got
		}
	}
	if answer == nil {
		return nil, exit.Join(missed...)
	}
	return answer, nil
}

// reach makes a connection, and says what was tried. Callers must hold d.mu.
func (d *Daemon) reach(ctx context.Context) (conn net.Conn, tried string, err error) {
	if d.Dial != nil {
		conn, err = d.Dial(ctx)
		return conn, d.Address, err
	}
	if d.First != "" {
		if conn, err = jobnet.Dial(ctx, d.First); err == nil {
			d.Address, d.First = d.First, ""
			return conn, d.Address, nil
		}
		tried = fmt.Sprintf("%s (%v), nor to ", d.First, err)
	}
	if conn, err = jobnet.Dial(ctx, d.Address); err == nil {
		d.First = ""
	}
	return conn, tried + d.Address, err
}

// Ask sends a request and gives the data of its answer. Before anything else over a link the daemon
// is asked what it is: a master takes pause for all of its workers, and answers others' requests in
// forms of its own. Another daemon than the one that was meant is an error. Of several masters the first
// that answers a ping is asked; what it may have been asked no other one is asked, but a poke.
func (d *Daemon) Ask(ctx context.Context, typ string, data any) (json.RawMessage, error) {
	if typ == api.Poke.Name && d.several() {
		return d.pokeAll(ctx, data)
	}
	l, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	if typ != api.Status.Name && !d.isMeant(l) {
		_, err := d.request(ctx, l, api.Status.Name, nil)
		var refused *jobnet.RemoteError
		if err != nil && (!errors.As(err, &refused) || IsPassword(err)) {
			return nil, err
		}
		d.setMeant(l) // one that does not say what it is answers the request itself, or refuses it
	}
	return d.request(ctx, l, typ, data)
}

func (d *Daemon) isMeant(l *line) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return l.meant
}

func (d *Daemon) setMeant(l *line) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.meant = true
}

// request sends a request over a link. A link over which no answer came is not used again.
func (d *Daemon) request(ctx context.Context, l *line, typ string, data any) (json.RawMessage, error) {
	patience := d.patienceWith(typ)
	asking, cancel := within(ctx, patience)
	defer cancel()
	answer, err := l.Request(asking, typ, data)
	var remote *jobnet.RemoteError
	switch {
	case err == nil && typ == api.Status.Name:
		if err := d.isWhat(answer); err != nil {
			return nil, err
		}
		d.setMeant(l)
		return answer, nil
	case err == nil:
		return answer, nil
	case errors.As(err, &remote) && IsPassword(err) && d.Password == "":
		return nil, fmt.Errorf("%s: %w", d.Address, errNoPassword)
	case errors.As(err, &remote):
		return nil, d.refused(remote)
	}
	if ctx.Err() == nil { // else the request was given up, and the link is as good as before
		d.drop(l)
	}
	if errors.Is(context.Cause(asking), errSilent) {
		return nil, &unanswered{typ, exit.Because(fmt.Errorf("%s: %w within %v", d.Address, errSilent, patience), err)}
	}
	return nil, &unanswered{typ, exit.Why(ctx, err)}
}

// AskInto asks and decodes the answer's data.
func (d *Daemon) AskInto(ctx context.Context, typ string, data, into any) error {
	answer, err := d.Ask(ctx, typ, data)
	if err != nil {
		return err
	}
	return d.Understand(typ, answer, into)
}

// Understand decodes the data of an answer.
func (d *Daemon) Understand(typ string, answer json.RawMessage, into any) error {
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s: answer to %s is not understood: %w", d.Address, typ, err)
	}
	return nil
}

// isWhat is an error where the answer to status is not that of the daemon that was meant.
func (d *Daemon) isWhat(status json.RawMessage) error {
	var answer struct {
		Workers, Targets json.RawMessage
	}
	if json.Unmarshal(status, &answer) != nil {
		return nil // who reads it will say so
	}
	isMaster, isWorker := answer.Workers != nil, answer.Targets != nil
	switch {
	case d.Master && isWorker && !isMaster:
		return exit.Because(fmt.Errorf("%s: this is a worker, not a master: omit --master, or give the master's --host and --port", d.Address), errWrongDaemon)
	case !d.Master && isMaster && !isWorker:
		return exit.Because(fmt.Errorf("%s: this is a master, not a worker: use --master, or give the worker's --host and --port", d.Address), errWrongDaemon)
	}
	return nil
}

// mostLines is how many lines of a peer's error are told.
const mostLines = 100

// refused is what the daemon said instead of an answer. Each line of it names the daemon: none can
// pass for one of our own.
func (d *Daemon) refused(refusal *jobnet.RemoteError) error {
	var lines []error
	for line := range strings.SplitSeq(strings.TrimRight(refusal.Text, "\n"), "\n") {
		if len(lines) == mostLines {
			lines = append(lines, fmt.Errorf("%s: …", d.Address))
			break
		}
		lines = append(lines, fmt.Errorf("%s: %w", d.Address, said(line, jobnet.CodeOf(refusal))))
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return errors.Join(lines...)
}

// patienceWith is how long the answer to a request may take. Some are answered when jobs have
// ended, or the worker has started again; pause waits itself for up to 10 s, for starts under way.
func (d *Daemon) patienceWith(typ string) time.Duration {
	switch typ {
	case api.RunManual.Name, api.Restart.Name:
		return 0
	case api.Pause.Name:
		return d.Patience * 3 / 2
	case api.Retry.Name, api.Cancel.Name, api.Reload.Name:
		// They wait for rows that somebody holds, and for a database that is away. A master waits
		// 30 s for the worker that it asks, and then says so.
		return d.Patience * 4
	}
	return d.Patience
}

// within gives a request its time.
func within(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	if patience == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, patience, errSilent)
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"

	"jobd/cmd/internal/exit"
	jobnet "jobd/net"
	"jobd/net/api"
)

// errNoPassword is the error of a run that gave no password to a daemon that wants one.
var errNoPassword = errors.New("a password is needed; give it in ~/.jobctl.conf, as JOBCTL_PASSWORD or with --password")

// isPassword tells whether the daemon answered nothing for want of the right password.
func isPassword(err error) bool {
	return errors.Is(err, errNoPassword) || jobnet.CodeOf(err) == jobnet.CodePassword
}

// client is a link to the daemon, over which any number of requests may go.
type client struct {
	address  string
	link     *jobnet.Link
	bounds   *bounded
	secret   bool          // a password was sent
	master   bool          // a master is to be at the other end
	patience time.Duration // with each answer; 0: no limit, or one for the whole run
}

// linked connects to the daemon, and has the link used.
func (p *program) linked(ctx context.Context, use func(ctx context.Context, c *client) error) error {
	if p.config.askPassword {
		password, err := p.password()
		if err != nil {
			return err
		}
		p.config.password, p.config.askPassword = password, false // it is asked for once
	}
	c, end, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer end()
	return use(ctx, c)
}

// connect connects to the daemon. The caller ends the link.
func (p *program) connect(ctx context.Context) (c *client, end func(), err error) {
	c = &client{address: p.config.address(), secret: p.config.password != "", master: p.config.master, patience: p.patience()}
	dialing, cancel := c.within(ctx, c.patience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(dialing, "tcp", c.address)
	if err != nil {
		return nil, nil, couldNotConnect(ctx, fmt.Errorf("connect to %s: %w", c.address, why(dialing, err)))
	}
	c.bounds = bound(conn)
	c.link = jobnet.NewLink(c.bounds, jobnet.LinkConfig{
		Password: p.config.password, MaxMessageSize: maxAnswer, FrameTimeout: answerTimeout, Logger: p.log.Logger,
		Codes: true,
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.link.Run(context.WithoutCancel(ctx)) // the request tells why the link ended
	}()
	end = func() {
		c.link.Close()
		<-ended
	}
	return c, end, nil
}

// couldNotConnect gives an error its exit code, unless it was somebody's wish that the run ends.
func couldNotConnect(ctx context.Context, err error) error {
	if interrupted(ctx) {
		return why(ctx, err)
	}
	return exit.With(exit.Connect, err)
}

// ask sends a request and gives the data of its answer. The status of another daemon than the one
// that was meant is an error.
func (c *client) ask(ctx context.Context, typ string, data any) (json.RawMessage, error) {
	patience := c.patienceWith(typ)
	asking, cancel := c.within(ctx, patience)
	defer cancel()
	c.bounds.allow(answerLimit(typ))
	diagnosis := c.diagnose(asking, patience)
	answer, err := c.link.Request(asking, typ, data)
	var remote *jobnet.RemoteError
	switch {
	case err == nil && typ == api.Status.Name:
		return answer, c.isWhat(answer)
	case err == nil:
		return answer, nil
	case errors.As(err, &remote) && isPassword(err) && !c.secret:
		return nil, fmt.Errorf("%s: %w", c.address, errNoPassword)
	case errors.As(err, &remote):
		return nil, c.refused(remote)
	case errors.Is(context.Cause(asking), errSilent):
		return nil, &unanswered{typ, &because{fmt.Errorf("%s: %w within %v%s", c.address, errSilent, patience, <-diagnosis), err}}
	}
	if tooLong := c.bounds.failure(); tooLong != nil {
		return nil, &unanswered{typ, &because{fmt.Errorf("%s: %w", c.address, tooLong), err}}
	}
	return nil, &unanswered{typ, why(ctx, err)}
}

// unanswered is why a request has no answer. Unless ErrUnsent is among the causes, the daemon may
// have done what it was asked for.
type unanswered struct {
	typ string
	err error
}

// Error implements error.
func (u *unanswered) Error() string { return u.err.Error() }

// Unwrap gives the cause.
func (u *unanswered) Unwrap() error { return u.err }

// leftOpen tells whether err leaves open what became of a request of this type.
func leftOpen(err error, typ string) bool {
	var u *unanswered
	return errors.As(err, &u) && u.typ == typ && !errors.Is(err, jobnet.ErrUnsent)
}

// mostLines is how many lines of a peer's error are told.
const mostLines = 100

// refused is what the daemon said instead of an answer. Each line of it names the daemon: none can
// pass for jobctl's own.
func (c *client) refused(said *jobnet.RemoteError) error {
	var lines []error
	for line := range strings.SplitSeq(strings.TrimRight(said.Text, "\n"), "\n") {
		if len(lines) == mostLines {
			lines = append(lines, fmt.Errorf("%s: …", c.address))
			break
		}
		lines = append(lines, fmt.Errorf("%s: %w", c.address, &jobnet.RemoteError{Text: clean(line), Code: jobnet.CodeOf(said)}))
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return errors.Join(lines...)
}

// askInto asks and decodes the answer's data.
func (c *client) askInto(ctx context.Context, typ string, data, into any) error {
	answer, err := c.ask(ctx, typ, data)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s: answer to %s is not understood: %w", c.address, typ, err)
	}
	return nil
}

// ask sends one request to the daemon and gives the data of its answer, which it
// prints if the output is to be JSON.
func (p *program) ask(ctx context.Context, typ string, data any) (answer json.RawMessage, err error) {
	err = p.linked(ctx, func(ctx context.Context, c *client) error {
		if typ != api.Status.Name {
			err = c.expect(ctx)
		}
		if err == nil {
			answer, err = c.ask(ctx, typ, data)
		}
		if err != nil || !p.json() {
			return err
		}
		_, err = fmt.Fprintf(p.out, "%s\n", answer)
		return err
	})
	return answer, err
}

// askInto asks and decodes the answer's data.
func (p *program) askInto(ctx context.Context, typ string, data, into any) error {
	answer, err := p.ask(ctx, typ, data)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s: answer to %s is not understood: %w", p.config.address(), typ, err)
	}
	return nil
}

// askFor sends a request of package api, and prints its answer as ask does.
func askFor[Q, A any](ctx context.Context, p *program, r api.Request[Q, A], query Q) (answer A, err error) {
	err = p.askInto(ctx, r.Name, query, &answer)
	return answer, err
}

// json tells whether the answer's data is the output.
func (p *program) json() bool { return p.config.output == "json" }

// why puts the reason for a context's end before the end; somebody's wish that the run ends in
// place of it. Of no error it says nothing.
func why(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	var by interruption
	switch {
	case err == nil || cause == nil || errors.Is(err, cause):
		return err
	case errors.As(cause, &by):
		return &because{cause, err}
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// password asks for the password: without echo on a terminal, else it is the first line of stdin.
func (p *program) password() (string, error) {
	if file, ok := p.in.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(file.Fd())) {
		fmt.Fprint(p.err, "Password: ")
		password, err := term.ReadPassword(int(file.Fd()))
		fmt.Fprintln(p.err)
		if err != nil {
			return "", fmt.Errorf("read password: %w", err)
		}
		return string(password), nil
	}
	line, err := bufio.NewReader(p.in).ReadString('\n')
	if err != nil && (err != io.EOF || line == "") {
		return "", fmt.Errorf("read password from stdin: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// onlyWorker and onlyMaster refuse a command that the other daemon answers.
func (p *program) onlyWorker(name string) error {
	if p.config.master {
		return wrongUsage("%s: only a worker knows this; leave --master away", name)
	}
	return nil
}

func (p *program) onlyMaster(name, instead string) error {
	if !p.config.master {
		return wrongUsage("%s: only a master knows this; use --master, or %s for a worker", name, instead)
	}
	return nil
}

// What a daemon may answer, in bytes, and how long one answer may take once begun: the outputs of
// many jobs at once, over a slow link. Anything else is a page, or a list of workers.
const (
	maxAnswer     = 256 << 20
	maxShort      = 64 << 20
	answerTimeout = time.Hour
)

// answerLimit is how many bytes the answer to a request may take.
func answerLimit(typ string) int {
	if typ == api.RunManual.Name {
		return maxAnswer
	}
	return maxShort
}

// bounded is a connection from which no more is read than the request that was sent last allows: a
// server that writes without end must not fill the memory.
type bounded struct {
	net.Conn

	mu    sync.Mutex
	limit int
	left  int
	err   error
}

func bound(conn net.Conn) *bounded {
	b := &bounded{Conn: conn}
	b.allow(maxShort)
	return b
}

// allow lets so many bytes through from now on, or what is left of more.
func (b *bounded) allow(bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit, b.left = bytes, max(bytes, b.left)
}

// failure says that more came; nil: it did not.
func (b *bounded) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Read implements net.Conn.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left -= n; b.left < 0 && b.err == nil {
		b.err = fmt.Errorf("the answer is longer than %s, and was not read to its end", humanize.IBytes(uint64(b.limit)))
	}
	if b.err != nil {
		return 0, b.err
	}
	return n, err
}

// CloseWrite ends what is sent, as far as the connection knows that.
func (b *bounded) CloseWrite() error {
	if half, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// queryTimeout is how long a daemon may take for an answer, where no --timeout says how long the
// whole run may take.
const queryTimeout = 10 * time.Second

// errSilent says that no answer came in time.
var errSilent = errors.New("no answer")

// patienceWith is how long the answer to a request may take. Some are answered when jobs have
// ended, or the worker has started again; pause waits itself for up to 10 s, for starts under way.
func (c *client) patienceWith(typ string) time.Duration {
	switch typ {
	case api.RunManual.Name, api.Restart.Name:
		return 0
	case api.Pause.Name:
		return c.patience * 3 / 2
	case api.Retry.Name, api.Cancel.Name, api.Reload.Name:
		// They wait for rows that somebody holds, and for a database that is away. A master waits
		// 30 s for the worker that it asks, and then says so.
		if c.master {
			return c.patience * 4
		}
		return c.patience * 3
	}
	return c.patience
}

// patience is how long each answer may take; 0: the whole run has a limit, or none was wanted.
func (p *program) patience() time.Duration {
	switch {
	case p.set.Given("timeout"):
		return 0
	case p.surroundings.patience > 0:
		return p.surroundings.patience
	}
	return queryTimeout
}

// within gives a request its time.
func (c *client) within(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	if patience == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, patience, errSilent)
}

// diagnose finds out, when some of the time for an answer has gone by, who is silent: the daemon,
// or workers behind a master, which takes 5 s to say so of one. What it found, as the end of a
// sentence, is there when the time is up.
func (c *client) diagnose(ctx context.Context, patience time.Duration) <-chan string {
	found := make(chan string, 1)
	go func() {
		if patience == 0 {
			<-ctx.Done()
		}
		select {
		case <-time.After(patience * 3 / 10):
			found <- c.silent(context.WithoutCancel(ctx), patience*7/10)
		case <-ctx.Done():
			found <- ""
		}
	}()
	return found
}

// silent says who is, so far as that is known after a while.
func (c *client) silent(ctx context.Context, patience time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pinging, cancel := context.WithTimeout(ctx, patience*4/5)
	defer cancel()
	if c.link.Ping(pinging) != nil {
		return "; it does not answer a ping either: it hangs, is stopped, or is out of reach"
	}
	if !c.master {
		return "; it does answer a ping"
	}
	answer, err := c.link.Request(ctx, api.MasterStatus.Name, api.Polling{Workers: true})
	var status masterStatus
	if err != nil || json.Unmarshal(answer, &status) != nil {
		return "; the master does answer a ping: workers may hang"
	}
	var text strings.Builder
	for _, failed := range silentWorkers(status) {
		fmt.Fprintf(&text, "; %v", failed)
	}
	return text.String()
}

// silentWorkers names the workers that did not answer their master.
func silentWorkers(s masterStatus) []error {
	var failed []error
	for _, worker := range s.Workers {
		if worker.StatusError != "" {
			failed = append(failed, fmt.Errorf("worker '%s': %s", clean(worker.Name), clean(worker.StatusError)))
		}
	}
	return failed
}

// expect asks the daemon what it is before it is asked for something: a master takes pause for all
// of its workers, and answers others' requests in forms of its own.
func (c *client) expect(ctx context.Context) error {
	_, err := c.ask(ctx, api.Status.Name, nil)
	var refused *jobnet.RemoteError
	if errors.As(err, &refused) && !isPassword(err) {
		return nil // it does not say; the request itself is answered, or refused
	}
	return err
}

// errWrongDaemon says that another daemon is there than the one that was meant.
var errWrongDaemon = errors.New("this is the wrong daemon")

// isWhat is an error where the answer to status is not that of the daemon that was meant.
func (c *client) isWhat(status json.RawMessage) error {
	var answer struct {
		Workers, Targets json.RawMessage
	}
	if json.Unmarshal(status, &answer) != nil {
		return nil // who reads it will say so
	}
	isMaster, isWorker := answer.Workers != nil, answer.Targets != nil
	switch {
	case c.master && isWorker && !isMaster:
		return &because{fmt.Errorf("%s: this is a worker, not a master: leave --master away, or give the master's --host and --port", c.address), errWrongDaemon}
	case !c.master && isMaster && !isWorker:
		return &because{fmt.Errorf("%s: this is a master, not a worker: use --master, or give the worker's --host and --port", c.address), errWrongDaemon}
	}
	return nil
}

// told is what one worker answered to a request that went to all of them.
type told[A any] struct {
	from   *remote // to ask this worker for more
	answer A
	err    error // why there is no answer
}

// askFleet asks the worker at the other end, or all workers of the master there.
func askFleet[A any](ctx context.Context, c *client, typ string, data any) ([]told[A], error) {
	if !c.master {
		one := told[A]{from: &remote{client: c}}
		err := cannotTell(c.askInto(ctx, typ, data, &one.answer))
		return []told[A]{one}, err
	}
	var relayed api.Relayed
	if err := c.askInto(ctx, typ, data, &relayed); err != nil {
		return nil, cannotTell(err)
	}
	if len(relayed.Workers) == 0 {
		return nil, errors.New("no worker is registered with the master")
	}
	all := make([]told[A], len(relayed.Workers))
	for i, w := range relayed.Workers {
		all[i].from = &remote{client: c, name: w.Name, address: w.Address}
		if w.Error != "" {
			all[i].err = cannotTell(&jobnet.RemoteError{Text: clean(w.Error)})
		} else if err := json.Unmarshal(w.Data, &all[i].answer); err != nil {
			all[i].err = fmt.Errorf("answer to %s is not understood: %w", typ, err)
		}
	}
	return all, nil
}

// cannotTell explains the error of a peer that does not know what it was asked; nil stays nil.
func cannotTell(err error) error {
	if err != nil && jobnet.CodeOf(err) == jobnet.CodeUnknown {
		return fmt.Errorf("it can't tell, because it is an older jobd, or the original: %w", err)
	}
	return err
}

// silent gives the errors of the workers that did not answer, each with its name.
func silent[A any](all []told[A]) error {
	var failed []error
	for _, one := range all {
		if one.err != nil {
			failed = append(failed, fmt.Errorf("worker '%s': %w", clean(one.from.name), one.err))
		}
	}
	return errors.Join(failed...)
}

// asking is a worker, and the targets whose rows it is asked for.
type asking struct {
	from    *remote
	targets []string // none: all that it serves
}

// onceEach asks for rows of some targets, or of all: one worker for all of them, of a master's workers
// those that it takes to have each target once, until there are enough. A worker that can't tell is
// an error beside what the others say, where nobody else could in its place.
func onceEach(ctx context.Context, c *client, targets []string, ask func(asking) (enough bool, err error)) (errs []error, err error) {
	if !c.master {
		_, err = ask(asking{from: &remote{client: c}, targets: targets})
		return nil, cannotTell(err)
	}
	var status masterStatus
	if err := c.askInto(ctx, api.MasterStatus.Name, api.Polling{}, &status); err != nil {
		return nil, err
	}
	left := map[string][]*remote{} // who serves each target
	for _, w := range status.Workers {
		r := &remote{client: c, name: w.Name, address: net.JoinHostPort(w.RemoteAddr, strconv.Itoa(w.RemotePort))}
		for _, name := range w.Targets {
			if len(targets) == 0 || slices.Contains(targets, name) {
				left[name] = append(left[name], r)
			}
		}
	}
	failed := map[*remote]error{}
	for enough := false; len(left) > 0 && !enough; {
		next := fewest(left, failed)
		if next.from == nil { // nobody is left who could be asked
			break
		}
		if enough, err = ask(next); err != nil {
			if failed[next.from] = err; ctx.Err() != nil {
				break
			}
			continue
		}
		for _, name := range next.targets {
			delete(left, name)
		}
	}
	if len(left) == 0 {
		return nil, nil // others have told what these could not
	}
	for r, err := range failed {
		errs = append(errs, fmt.Errorf("worker '%s': %w", clean(r.name), cannotTell(err)))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs, nil
}

// fewest is who is asked next: whoever serves most of the targets that are left, but for those who
// could not tell.
func fewest(left map[string][]*remote, failed map[*remote]error) (next asking) {
	serves := map[*remote][]string{}
	for name, who := range left {
		for _, r := range who {
			if failed[r] == nil {
				serves[r] = append(serves[r], name)
			}
		}
	}
	for r, names := range serves {
		if better := len(names) - len(next.targets); better > 0 || better == 0 && r.address < next.from.address {
			next = asking{r, names}
		}
	}
	slices.Sort(next.targets)
	return next
}

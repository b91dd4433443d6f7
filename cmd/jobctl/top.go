package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"
	"golang.org/x/term"

	"jobd/cmd/internal/logging"
	"jobd/cmd/internal/reason"
	"jobd/cmd/jobctl/live"
	jobnet "jobd/net"
	"jobd/net/api"
)

// The intervals at which top asks.
const (
	topInterval   = time.Second
	leastInterval = 500 * time.Millisecond
)

func (p *program) top() *ffcli.Command {
	interval := topInterval
	c := command("top", "top [--interval D]", "a live view of workers, targets and running jobs, with keys", func(ctx context.Context, args []string) error {
		if err := p.viewable(args); err != nil {
			return err
		}
		return p.linked(ctx, func(ctx context.Context, first *client) error {
			if err := first.expect(ctx); err != nil {
				return err
			}
			return p.live(ctx, first, interval)
		})
	})
	c.FlagSet.Var(lengthFlag{length: &interval, least: leastInterval}, "interval", fmt.Sprintf("how often it is asked what is shown; %v at least (default: %v)", leastInterval, topInterval))
	c.LongHelp = "  jobctl top\n  jobctl --master --host 10.0.0.1 top --interval 5s"
	return c
}

// viewable refuses what can't be shown, or where.
func (p *program) viewable(args []string) error {
	instead := "status --watch, ps and queue print the same as text"
	in, hasFile := p.in.(interface{ Fd() uintptr })
	switch {
	case len(args) > 0:
		return wrongUsage("top: takes no arguments, got %q", args)
	case p.json():
		return wrongUsage("top: shows a view, no JSON; %s", instead)
	case !p.terminal || p.bare == nil || !hasFile || !term.IsTerminal(int(in.Fd())):
		return wrongUsage("top: needs a terminal to show its view, and to read keys from; %s", instead)
	case slices.Contains([]string{"", "dumb"}, p.variable("TERM")):
		return wrongUsage("top: the terminal can only print lines (TERM=%s); %s", p.variable("TERM"), instead)
	}
	return nil
}

// live shows the view until the person leaves it.
func (p *program) live(ctx context.Context, first *client, interval time.Duration) error {
	quiet := *p // nothing else may write to the terminal meanwhile
	quiet.err = io.Discard
	quiet.log = &logging.Log{Logger: slog.New(slog.DiscardHandler)}
	source := &topSource{p: &quiet, link: newLasting(&quiet, first)}
	defer source.link.close()
	what := "worker at "
	if p.config.master {
		what = "master at "
	}
	err := live.Run(ctx, live.Config{
		Source: source, Daemon: what + p.config.address(), Master: p.config.master, Interval: interval,
		Now: p.now, Location: p.location, Colour: p.coloured(), In: p.in, Out: p.bare, Environ: p.environ,
	})
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("top has ended, as --timeout %v wants it", p.config.timeout)
	}
	return why(ctx, err)
}

// topSource asks the worker at the other end, or the workers of the master there, for the live view.
// Each worker of a master is asked by itself: one that hangs delays nobody's answer but its own.
type topSource struct {
	p    *program
	link *lasting
}

var _ live.Source = (*topSource)(nil)

// Fleet implements live.Source.
func (s *topSource) Fleet(ctx context.Context) (fleet live.Fleet, err error) {
	err = s.link.use(ctx, func(c *client) error {
		if !c.master {
			var status workerStatus
			err := c.askInto(ctx, api.Status.Name, nil, &status)
			fleet.Workers = []live.Worker{{Name: status.Name, Status: &status, Targets: slices.Sorted(maps.Keys(status.Targets))}}
			return err
		}
		var status masterStatus
		if err := c.askInto(ctx, api.MasterStatus.Name, api.Polling{Workers: true}, &status); err != nil {
			return err
		}
		for _, w := range status.Workers {
			fleet.Workers = append(fleet.Workers, live.Worker{
				Name: w.Name, Address: net.JoinHostPort(w.RemoteAddr, strconv.Itoa(w.RemotePort)), Targets: w.Targets,
				Status: w.Status, Error: w.StatusError,
			})
		}
		if len(fleet.Workers) == 0 {
			fleet.Troubles = append(fleet.Troubles, "no worker is registered with the master")
		}
		for _, w := range status.Down {
			fleet.Troubles = append(fleet.Troubles, "worker "+s.p.downText(w))
		}
		if len(status.Unserved) > 0 {
			fleet.Troubles = append(fleet.Troubles, s.unserved(status))
		}
		return nil
	})
	return fleet, err
}

// unserved says what was poked and is served by nobody.
func (s *topSource) unserved(status masterStatus) string {
	first := status.Unserved[0]
	text := fmt.Sprintf("target '%s' was poked at %s, and nobody serves it", first.Target, time.UnixMilli(first.Since).In(s.p.location).Format(time.DateTime))
	if more := max(status.UnservedCount, len(status.Unserved)) - 1; more > 0 {
		text += fmt.Sprintf("; nor %d more", more)
	}
	return text
}

// Running implements live.Source.
func (s *topSource) Running(ctx context.Context, workers []live.Worker, q api.RunningQuery) (running live.Running, err error) {
	err = s.link.use(ctx, func(c *client) error {
		answers := askEach[api.RunningJobs](ctx, c, api.Running.Name, workers, func(live.Worker) any { return q })
		for _, a := range answers {
			running.Total += a.answer.Total
			for _, job := range a.answer.Jobs {
				running.Jobs = append(running.Jobs, live.Job{RunningJob: job, Worker: a.from.Name, Address: a.from.Address})
			}
		}
		running.Silent, err = unable(c, answers)
		return err
	})
	return running, err
}

// Waiting implements live.Source. Workers share the table: each target is counted by one of those
// that serve it, by as few workers as do.
func (s *topSource) Waiting(ctx context.Context, workers []live.Worker, targets []string) (waiting live.Waiting, err error) {
	waiting.Targets = map[string]api.WaitingTarget{}
	err = s.link.use(ctx, func(c *client) error {
		parts := counters(workers, targets)
		var counting []live.Worker
		for i, part := range parts {
			if len(part) > 0 {
				counting = append(counting, workers[i])
			}
		}
		parts = slices.DeleteFunc(parts, func(part []string) bool { return len(part) == 0 })
		next := 0
		answers := askEach[api.WaitingRows](ctx, c, api.Waiting.Name, counting, func(live.Worker) any {
			next++
			return api.WaitingQuery{Targets: parts[next-1]}
		})
		for _, a := range answers {
			maps.Copy(waiting.Targets, a.answer.Targets)
		}
		waiting.Silent, err = unable(c, answers)
		return err
	})
	return waiting, err
}

// counters shares targets out among the workers that serve them: each to the first one of those
// that are likeliest to be able to count.
func counters(workers []live.Worker, targets []string) [][]string {
	parts := make([][]string, len(workers))
	for _, target := range targets {
		best, by := 0, -1
		for i, w := range workers {
			if _, serves := w.Status.Targets[target]; serves && (by < 0 || countsAs(w.Status) > best) {
				best, by = countsAs(w.Status), i
			}
		}
		if by >= 0 {
			parts[by] = append(parts[by], target)
		}
	}
	return parts
}

// countsAs is the higher the likelier a worker can count rows: older versions and the original
// never can, and without its database nobody can.
func countsAs(s *workerStatus) int {
	switch {
	case !tellsMore(s):
		return 0
	case !s.Database.Reachable:
		return 1
	}
	return 2
}

// reply is what one worker answered.
type reply[A any] struct {
	from   live.Worker
	answer A
	err    error
}

// mostAsked is how many workers are asked at once.
const mostAsked = 16

// askEach asks workers beside each other, each for its own.
func askEach[A any](ctx context.Context, c *client, typ string, workers []live.Worker, data func(live.Worker) any) []reply[A] {
	replies := make([]reply[A], len(workers))
	slots := make(chan struct{}, mostAsked)
	var all sync.WaitGroup
	for i, w := range workers {
		replies[i].from = w
		query := data(w)
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r := &remote{client: c, name: w.Name, address: w.Address}
			replies[i].err = askOne(ctx, r, typ, query, &replies[i].answer)
		})
	}
	all.Wait()
	return replies
}

// askOne asks one worker, through its master where there is one.
func askOne(ctx context.Context, r *remote, typ string, query, into any) error {
	if r.address == "" {
		return cannotTell(r.client.askInto(ctx, typ, query, into))
	}
	relay := fieldsOf(query)
	relay["worker"] = r.address
	var answer api.Relayed
	if err := r.client.askInto(ctx, typ, relay, &answer); err != nil {
		return cannotTell(err)
	}
	if len(answer.Workers) != 1 {
		return fmt.Errorf("the master gave %d answers to %s", len(answer.Workers), typ)
	}
	if text := answer.Workers[0].Error; text != "" {
		return cannotTell(&jobnet.RemoteError{Text: text})
	}
	return json.Unmarshal(answer.Workers[0].Data, into)
}

// unable says which workers could not answer. Where the link is what failed, that is an error.
func unable[A any](c *client, replies []reply[A]) (silent []string, err error) {
	for _, r := range replies {
		var answer *jobnet.RemoteError
		switch {
		case r.err == nil:
		case !errors.As(r.err, &answer):
			return nil, r.err
		case c.master:
			silent = append(silent, fmt.Sprintf("worker '%s': %v", r.from.Name, r.err))
		default:
			silent = append(silent, r.err.Error())
		}
	}
	return silent, nil
}

// Do implements live.Source.
func (s *topSource) Do(ctx context.Context, a live.Action) (answer string, err error) {
	err = s.link.use(ctx, func(c *client) error {
		switch a.Kind {
		case live.Pause:
			answer, err = s.tellTarget(ctx, c, api.Pause, a.Target)
		case live.Continue:
			answer, err = s.tellTarget(ctx, c, api.Continue, a.Target)
		case live.Poke:
			answer, err = s.tellTarget(ctx, c, s.look(), a.Target)
		case live.Term:
			answer, err = s.signal(ctx, c, a.Job, syscall.SIGTERM)
		case live.Kill:
			answer, err = s.signal(ctx, c, a.Job, syscall.SIGKILL)
		case live.Cancel:
			answer, err = s.cancel(ctx, c, a.Job)
		}
		return err
	})
	return answer, err
}

// look is what has workers look for jobs.
func (s *topSource) look() api.Request[api.Targets, api.Done] {
	if s.p.config.master {
		return api.Poke
	}
	return api.Poll
}

func (s *topSource) tellTarget(ctx context.Context, c *client, r api.Request[api.Targets, api.Done], target string) (string, error) {
	var done api.Done
	if err := c.askInto(ctx, r.Name, api.Targets{Targets: []string{target}, Detail: c.master}, &done); err != nil {
		return "", mayBeDone(err, r.Name)
	}
	if r.Name == api.Poke.Name && len(done.Unserved) > 0 {
		return "no worker serves it now; the poke is kept until one does", nil
	}
	return done.Result, s.p.missed(ctx, r.Name, done)
}

func (s *topSource) signal(ctx context.Context, c *client, job live.Job, signal syscall.Signal) (string, error) {
	name := api.SendSignal.Name
	var answer api.Delivered
	if err := c.askInto(ctx, name, s.p.signalRequest([]jobRef{{id: job.Job, target: job.Target}}, int(signal)), &answer); err != nil {
		return "", mayBeDone(err, name)
	}
	key := strconv.FormatInt(int64(job.Job), 10)
	switch {
	case answer.Errors[key] != "":
		return "", errors.New(answer.Errors[key])
	case !answer.Jobs[key]:
		return "", fmt.Errorf("job %s is not running any more", key)
	}
	return "sent", nil
}

// cancel cancels a running job, on the worker that runs it.
func (s *topSource) cancel(ctx context.Context, c *client, job live.Job) (string, error) {
	r := &remote{client: c, name: job.Worker, address: job.Address}
	query := api.CancelQuery{IDs: []jobnet.Whole{job.Job}, Targets: map[jobnet.Whole]string{job.Job: job.Target}}
	var answer api.CancelAnswer
	if err := askOne(ctx, r, api.Cancel.Name, query, &answer); err != nil {
		return "", mayBeDone(err, api.Cancel.Name)
	}
	became, known := answer.Jobs[job.Job]
	switch {
	case answer.Errors[job.Job] != "":
		return "", errors.New(answer.Errors[job.Job])
	case !known:
		return "", errors.New("its worker does not have it any more")
	case became.State != api.CancelCancelling:
		return became.State, nil
	case became.Before:
		return fmt.Sprintf("was cancelled before, by %s; it gets KILL at %s", became.By, s.clock(became.Kill)), nil
	}
	return fmt.Sprintf("it got TERM, and gets KILL at %s", s.clock(became.Kill)), nil
}

// clock is the time of day of unix milliseconds.
func (s *topSource) clock(at int64) string {
	return time.UnixMilli(at).In(s.p.location).Format(time.TimeOnly)
}

// lasting is a link that is made again when it was lost, by the next one who needs it. It is safe
// for concurrent use.
type lasting struct {
	p    *program
	turn chan struct{} // holds one value while nobody looks at the rest

	client *client
	end    func() // nil: somebody else ends it
}

// newLasting begins with a link that its maker ends.
func newLasting(p *program, first *client) *lasting {
	l := &lasting{p: p, turn: make(chan struct{}, 1), client: first}
	l.turn <- struct{}{}
	return l
}

// use has the link used, or a new one. One over which no answer came is not used again.
func (l *lasting) use(ctx context.Context, do func(*client) error) error {
	c, err := l.get(ctx)
	if err != nil {
		return err
	}
	err = do(c)
	var answer *jobnet.RemoteError
	if err != nil && !errors.As(err, &answer) && ctx.Err() == nil {
		l.drop(c)
	}
	return err
}

func (l *lasting) get(ctx context.Context) (*client, error) {
	select {
	case <-l.turn:
		defer func() { l.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.client != nil {
		return l.client, nil
	}
	c, end, err := l.p.connect(ctx)
	var failed *net.OpError
	switch {
	case errors.As(err, &failed):
		return nil, failed.Err // where to, everybody knows
	case err != nil:
		return nil, err
	}
	if err := c.expect(ctx); err != nil {
		end()
		return nil, err
	}
	l.client, l.end = c, end
	return c, nil
}

// drop ends a link, unless that has happened.
func (l *lasting) drop(c *client) {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	if l.client == c {
		l.finish()
	}
}

// close ends the link that there is.
func (l *lasting) close() {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	l.finish()
}

func (l *lasting) finish() {
	if l.client != nil && l.end != nil {
		l.end()
	} else if l.client != nil {
		l.client.link.Close()
	}
	l.client, l.end = nil, nil
}

// nextOf is where the part behind this one begins.
func nextOf(o api.OutputPart) int64 { return o.At + int64(len(o.Bytes)) }

// textOfPart is the part, and a line in place of what was not kept before it.
func textOfPart(o api.OutputPart) string {
	if o.Skipped > 0 {
		return fmt.Sprintf("[%d bytes were not kept]\n%s", o.Skipped, o.Bytes)
	}
	return string(o.Bytes)
}

// Output implements live.Source.
func (s *topSource) Output(ctx context.Context, job live.Job, behind live.Place) (output live.Output, err error) {
	err = s.link.use(ctx, func(c *client) error {
		r := &remote{client: c, name: job.Worker, address: job.Address}
		var answer api.JobOutput
		query := api.OutputQuery{Job: job.Job, Attempt: job.Attempt, Stdout: behind.Stdout, Stderr: behind.Stderr}
		if err := askOne(ctx, r, api.Output.Name, query, &answer); err != nil {
			return err
		}
		out, errs := answer.Stdout, answer.Stderr
		output = live.Output{
			Stdout: textOfPart(out), Stderr: textOfPart(errs), Next: live.Place{Stdout: nextOf(out), Stderr: nextOf(errs)},
			More: len(out.Bytes) > 0 && nextOf(out) < out.Size || len(errs.Bytes) > 0 && nextOf(errs) < errs.Size,
		}
		output.Ended = answer.State == api.OutputEnded && !output.More
		output.Note = s.noteOf(answer)
		return nil
	})
	return output, err
}

// noteOf says how a job ended, or why nothing comes.
func (s *topSource) noteOf(answer api.JobOutput) string {
	switch {
	case answer.Done != nil && answer.Done.Ended > 0:
		return endOf(answer.Done) + ", at " + time.UnixMilli(answer.Done.Ended).In(s.p.location).Format(time.DateTime)
	case answer.Done != nil:
		return endOf(answer.Done)
	case answer.Adopted:
		return "its runner is gone, and nobody reads what it writes"
	case answer.State == api.OutputClaimed:
		return "it has not started yet"
	}
	return ""
}

// Story implements live.Source: where the job is, and what the journal of its worker tells of it.
func (s *topSource) Story(ctx context.Context, job live.Job) (lines []string, err error) {
	err = s.link.use(ctx, func(c *client) error {
		var text bytes.Buffer
		printing := *s.p
		printing.out, printing.terminal = &text, false
		r := &remote{client: c, name: job.Worker, address: job.Address}
		if job.Address == "" {
			r.name = "" // there is nothing to tell apart
		}
		told := story{program: &printing, journals: &journals{sources: []source{r}, remotes: []*remote{r}, note: func(error) {}}}
		err := told.tell(ctx, int64(job.Job))
		lines = append([]string{s.sentence(ctx, c, job), ""}, strings.Split(strings.TrimRight(text.String(), "\n"), "\n")...)
		return err
	})
	return lines, err
}

// sentence is what jobctl why says of a job of which only its worker is asked.
func (s *topSource) sentence(ctx context.Context, c *client, job live.Job) string {
	answer := reason.Answer{Name: job.Worker}
	r := &remote{client: c, name: job.Worker, address: job.Address}
	answer.Err = askOne(ctx, r, api.Explain.Name, api.ExplainQuery{IDs: []jobnet.Whole{job.Job}}, &answer.Explained)
	question := reason.Question{Job: int64(job.Job), Target: job.Target, Master: s.p.config.master, Now: s.p.now(), Location: s.p.location}
	return reason.Of(question, []reason.Answer{answer}).Sentence
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/term"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/logging"
	"jobd/cmd/internal/operator"
	"jobd/cmd/jobctl/live"
	jobnet "jobd/net"
	"jobd/net/api"
)

// The intervals at which top asks.
const (
	topInterval   = time.Second
	leastInterval = 500 * time.Millisecond
)

func (p *program) top() *cmd {
	interval := topInterval
	c := command("top [--interval D]", "a live view of workers, targets and running jobs, with keys", func(ctx context.Context, args []string) error {
		if err := p.viewable(); err != nil {
			return err
		}
		return p.live(ctx, interval)
	})
	c.value("interval", fmt.Sprintf("how often the view is refreshed; %v at least (default: %v)", leastInterval, topInterval), conf.Duration(&interval, leastInterval))
	return c
}

// viewable refuses what can't be shown, or where.
func (p *program) viewable() error {
	instead := "status --watch, ps and queue print the same as text"
	in, hasFile := p.in.(interface{ Fd() uintptr })
	switch {
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
func (p *program) live(ctx context.Context, interval time.Duration) error {
	quiet := *p // nothing else may write to the terminal meanwhile
	quiet.log = &logging.Log{Logger: slog.New(slog.DiscardHandler)}
	d := quiet.daemon()
	p.asked = d // it is hung up with p
	if _, err := d.Ask(ctx, api.Status.Name, nil); err != nil {
		return err
	}
	quiet.err = io.Discard
	what := "worker at "
	if p.config.master {
		what = "master at "
	}
	err := live.Run(ctx, live.Config{
		Source: &topSource{&quiet, d}, Daemon: what + d.Where(), Master: p.config.master, Interval: interval,
		Now: p.now, Location: p.location, Colour: p.coloured(), In: p.in, Out: p.bare, Environ: p.environ,
	})
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("top has ended after its --timeout of %v", p.config.timeout)
	}
	return exit.Why(ctx, err)
}

// topSource asks the worker at the other end, or the workers of the master there, for the live view.
type topSource struct {
	p *program
	d *operator.Daemon
}

var _ live.Source = (*topSource)(nil)

// Fleet implements live.Source.
func (s *topSource) Fleet(ctx context.Context) (*operator.Census, error) {
	return operator.TakeCensus(ctx, s.d)
}

// Running implements live.Source. What one worker refuses is no error.
func (s *topSource) Running(ctx context.Context, q api.RunningQuery) (operator.RunningJobs, error) {
	running, err := operator.Running(ctx, s.d, q)
	if refused := new(jobnet.RemoteError); errors.As(err, &refused) {
		running.Errors, err = map[string]string{"": err.Error()}, nil
	}
	return running, err
}

// Waiting implements live.Source.
func (s *topSource) Waiting(ctx context.Context, fleet *operator.Census, targets []string) (live.Waiting, error) {
	census := operator.Census{Workers: fleet.Workers}
	census.Count(ctx, targets)
	return live.Waiting{Targets: census.Waiting, Silent: append(census.Why, census.Older()...)}, nil
}

// Do implements live.Source.
func (s *topSource) Do(ctx context.Context, a live.Action) (answer string, err error) {
	switch a.Kind {
	case live.Pause:
		answer, err = s.tellTarget(ctx, api.Pause, a.Target)
	case live.Continue:
		answer, err = s.tellTarget(ctx, api.Continue, a.Target)
	case live.Poke:
		answer, err = s.tellTarget(ctx, s.look(), a.Target)
	case live.Cancel:
		answer, err = s.cancel(ctx, a.Job)
	}
	return answer, err
}

// look is what has workers look for jobs.
func (s *topSource) look() api.Request[api.Targets, api.Done] {
	if s.p.config.master {
		return api.Poke
	}
	return api.Poll
}

func (s *topSource) tellTarget(ctx context.Context, r api.Request[api.Targets, api.Done], target string) (string, error) {
	var done api.Done
	if err := s.d.AskInto(ctx, r.Name, api.Targets{Targets: []string{target}, Detail: s.d.Master}, &done); err != nil {
		return "", operator.MayBeDone(err, r.Name)
	}
	if r.Name == api.Poke.Name && len(done.Unserved) > 0 {
		return "no worker serves it now; the poke is kept until one does", nil
	}
	return done.Result, s.p.missed(r.Name, done)
}

// cancel cancels a running job, on the worker that runs it.
func (s *topSource) cancel(ctx context.Context, job live.Job) (string, error) {
	query := api.CancelQuery{IDs: []jobnet.Whole{job.Job}, Targets: map[jobnet.Whole]string{job.Job: job.Target}}
	var answer api.CancelAnswer
	if err := job.From.Ask(ctx, api.Cancel.Name, query, &answer); err != nil {
		return "", operator.MayBeDone(err, api.Cancel.Name)
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

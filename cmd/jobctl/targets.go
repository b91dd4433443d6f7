package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/net/api"
)

func (p *program) poll() *ffcli.Command {
	return command("poll", "poll [T…]", "worker: look for jobs of these targets, or of all", func(ctx context.Context, args []string) error {
		if p.config.master {
			return wrongUsage("poll: only a worker knows this; leave --master away, or use poke")
		}
		return p.tellTargets(ctx, api.Poll, args)
	})
}

func (p *program) poke() *ffcli.Command {
	return command("poke", "poke T…", "master: let the workers that serve these targets look for jobs", func(ctx context.Context, args []string) error {
		if err := p.onlyMaster("poke", "poll"); err != nil {
			return err
		}
		if len(args) == 0 {
			return wrongUsage("poke: needs at least one target")
		}
		return p.tellTargets(ctx, api.Poke, args)
	})
}

func (p *program) pause() *ffcli.Command {
	return command("pause", "pause [T…]", "start no more jobs of these targets, or of all", func(ctx context.Context, args []string) error {
		return p.tellTargets(ctx, api.Pause, args)
	})
}

func (p *program) resume() *ffcli.Command {
	return command("continue", "continue [T…]", "end the pause of these targets, or of all", func(ctx context.Context, args []string) error {
		return p.tellTargets(ctx, api.Continue, args)
	})
}

func (p *program) addTarget() *ffcli.Command {
	return command("add-target", "add-target T N", "worker: serve one more target, with N jobs at once", func(ctx context.Context, args []string) error {
		return p.tellConcurrency(ctx, api.AddTarget, args)
	})
}

func (p *program) setTargetConcurrency() *ffcli.Command {
	return command("set-target-concurrency", "set-target-concurrency T N", "worker: run up to N jobs of a target at once", func(ctx context.Context, args []string) error {
		return p.tellConcurrency(ctx, api.SetConcurrency, args)
	})
}

func (p *program) removeTarget() *ffcli.Command {
	return command("remove-target", "remove-target T", "worker: serve a target no more; its queue must be empty", func(ctx context.Context, args []string) error {
		if err := p.onlyWorker("remove-target"); err != nil {
			return err
		}
		if len(args) != 1 {
			return wrongUsage("remove-target: needs one target, got %q", args)
		}
		return tell(ctx, p, api.RemoveTarget, api.Target{Target: args[0]}, args[0])
	})
}

func (p *program) tellConcurrency(ctx context.Context, r api.Request[api.Slots, api.Done], args []string) error {
	if err := p.onlyWorker(r.Name); err != nil {
		return err
	}
	if len(args) != 2 {
		return wrongUsage("%s: needs a target and a number, got %q", r.Name, args)
	}
	concurrency, err := strconv.Atoi(args[1])
	if err != nil || concurrency < 1 {
		return wrongUsage("%s: concurrency %q is not allowed; allowed is a whole number of at least 1", r.Name, args[1])
	}
	return tell(ctx, p, r, api.Slots{Target: args[0], Concurrency: concurrency}, args[0])
}

// tell sends a request about targets whose answer is "ok", and prints that, unless nobody was there
// to do it.
func tell[Q any](ctx context.Context, p *program, r api.Request[Q, api.Done], query Q, targets ...string) error {
	done, err := askFor(ctx, p, r, query)
	if err != nil {
		return p.meantTargets(ctx, mayBeDone(err, r.Name), targets)
	}
	missed := p.missed(ctx, r.Name, done)
	if p.json() || missed != nil && done.Workers != nil && *done.Workers == 0 {
		return missed
	}
	_, err = fmt.Fprintln(p.out, clean(done.Result))
	return errors.Join(err, missed)
}

// mayBeDone says that nobody knows whether a request was carried out, where it has no answer.
func mayBeDone(err error, typ string) error {
	if !leftOpen(err, typ) {
		return err
	}
	return fmt.Errorf("%w; whether it did what it was asked for (%s) is not known", err, typ)
}

// missed says which targets nobody serves. A poke for them is kept until somebody does; nothing was
// paused or continued for them, and that is an error.
func (p *program) missed(ctx context.Context, typ string, done api.Done) error {
	var missed []error
	near := p.nearTargets(ctx)
	for _, target := range done.Unserved {
		missed = append(missed, fmt.Errorf("target '%s': no worker serves it", clean(target)))
	}
	nobody := done.Workers != nil && *done.Workers == 0 && len(missed) == 0
	switch {
	case nobody && typ != api.Poke.Name:
		return fmt.Errorf("%s: no worker is registered with the master: nothing was done", typ)
	case typ != api.Poke.Name:
		for i, target := range done.Unserved {
			missed[i] = fmt.Errorf("%w%s", missed[i], near(target))
		}
		return errors.Join(missed...)
	}
	for i, err := range missed {
		p.note(fmt.Errorf("%w now; the poke is kept until one does%s", err, near(done.Unserved[i])))
	}
	return nil
}

// tellTargets is tell about targets; none stands for all. A master is asked whom that is about.
func (p *program) tellTargets(ctx context.Context, r api.Request[api.Targets, api.Done], targets []string) error {
	return tell(ctx, p, r, api.Targets{Targets: targets, Detail: p.config.master}, targets...)
}

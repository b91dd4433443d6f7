package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/peterbourgon/ff/v3/ffcli"
)

func (p *program) poll() *ffcli.Command {
	return command("poll", "poll [T…]", "worker: look for jobs of these targets, or of all", func(ctx context.Context, args []string) error {
		if p.config.master {
			return wrongUsage("poll: only a worker knows this; leave --master away, or use poke")
		}
		return p.tell(ctx, "poll", targetList(args))
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
		return p.tell(ctx, "poke", targetList(args))
	})
}

func (p *program) pause() *ffcli.Command {
	return command("pause", "pause [T…]", "start no more jobs of these targets, or of all", func(ctx context.Context, args []string) error {
		return p.tell(ctx, "pause", targetList(args))
	})
}

func (p *program) resume() *ffcli.Command {
	return command("continue", "continue [T…]", "end the pause of these targets, or of all", func(ctx context.Context, args []string) error {
		return p.tell(ctx, "continue", targetList(args))
	})
}

func (p *program) addTarget() *ffcli.Command {
	return command("add-target", "add-target T N", "worker: serve one more target, with N jobs at once", func(ctx context.Context, args []string) error {
		return p.tellConcurrency(ctx, "add-target", args)
	})
}

func (p *program) setTargetConcurrency() *ffcli.Command {
	return command("set-target-concurrency", "set-target-concurrency T N", "worker: run up to N jobs of a target at once", func(ctx context.Context, args []string) error {
		return p.tellConcurrency(ctx, "set-target-concurrency", args)
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
		return p.tell(ctx, "remove-target", map[string]any{"target": args[0]})
	})
}

func (p *program) tellConcurrency(ctx context.Context, typ string, args []string) error {
	if err := p.onlyWorker(typ); err != nil {
		return err
	}
	if len(args) != 2 {
		return wrongUsage("%s: needs a target and a number, got %q", typ, args)
	}
	concurrency, err := strconv.Atoi(args[1])
	if err != nil || concurrency < 1 {
		return wrongUsage("%s: concurrency %q is not allowed; allowed is a whole number of at least 1", typ, args[1])
	}
	return p.tell(ctx, typ, map[string]any{"target": args[0], "concurrency": concurrency})
}

// tell sends a request whose answer is "ok", and prints it.
func (p *program) tell(ctx context.Context, typ string, data any) error {
	var answer string
	if err := p.askInto(ctx, typ, data, &answer); err != nil || p.json() {
		return err
	}
	_, err := fmt.Fprintln(p.out, clean(answer))
	return err
}

// targetList is the data that names targets; none stands for all.
func targetList(targets []string) any {
	if len(targets) == 0 {
		return map[string]any{}
	}
	return map[string]any{"targets": targets}
}

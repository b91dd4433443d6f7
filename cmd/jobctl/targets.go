package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/peterbourgon/ff/v3/ffcli"
)

func (p *program) poll() *ffcli.Command {
	return command("poll", "poll [T…]", "worker: look for jobs of these targets, or of all", func(ctx context.Context, args []string) error {
		if p.config.master {
			return wrongUsage("poll: only a worker knows this; leave --master away, or use poke")
		}
		return p.tellTargets(ctx, "poll", args)
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
		return p.tellTargets(ctx, "poke", args)
	})
}

func (p *program) pause() *ffcli.Command {
	return command("pause", "pause [T…]", "start no more jobs of these targets, or of all", func(ctx context.Context, args []string) error {
		return p.tellTargets(ctx, "pause", args)
	})
}

func (p *program) resume() *ffcli.Command {
	return command("continue", "continue [T…]", "end the pause of these targets, or of all", func(ctx context.Context, args []string) error {
		return p.tellTargets(ctx, "continue", args)
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
	var answer okAnswer
	if err := p.askInto(ctx, typ, data, &answer); err != nil {
		return mayBeDone(err, typ)
	}
	if !p.json() {
		if _, err := fmt.Fprintln(p.out, clean(answer.Result)); err != nil {
			return err
		}
	}
	return p.reached(typ, answer)
}

// mayBeDone says that nobody knows whether a request was carried out, where it has no answer.
func mayBeDone(err error, typ string) error {
	if !leftOpen(err, typ) {
		return err
	}
	return fmt.Errorf("%w; whether it did what it was asked for (%s) is not known", err, typ)
}

// okAnswer is "ok", or a master's answer with whom that is about.
type okAnswer struct {
	Result   string   `json:"result"`
	Unserved []string `json:"unserved"`
	Workers  *int     `json:"workers"` // nil: an older daemon, or a worker
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *okAnswer) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &a.Result) == nil {
		return nil
	}
	type object okAnswer // without this method
	return json.Unmarshal(data, (*object)(a))
}

// reached says which targets nobody serves. A poke for them is kept until somebody does; nothing was paused or continued
// for them, and that is an error.
func (p *program) reached(typ string, answer okAnswer) error {
	var missed []error
	for _, target := range answer.Unserved {
		missed = append(missed, fmt.Errorf("target '%s': no worker serves it", clean(target)))
	}
	nobody := answer.Workers != nil && *answer.Workers == 0 && len(missed) == 0
	switch {
	case nobody && typ != "poke":
		return fmt.Errorf("%s: no worker is registered with the master: nothing was done", typ)
	case typ != "poke":
		return errors.Join(missed...)
	}
	for _, err := range missed {
		p.note(fmt.Errorf("%w now; the poke is kept until one does", err))
	}
	return nil
}

// tellTargets is tell about targets; none stands for all. A master is asked whom that is about.
func (p *program) tellTargets(ctx context.Context, typ string, targets []string) error {
	data := map[string]any{}
	if len(targets) > 0 {
		data["targets"] = targets
	}
	if p.config.master {
		data["detail"] = true
	}
	return p.tell(ctx, typ, data)
}

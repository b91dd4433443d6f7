package main

import (
	"context"
	"flag"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"jobd/net/api"
)

// chooses is implemented by the values of flags that take certain words only.
type chooses interface{ choices() []string }

func (kindsFlag) choices() []string  { return kindNames() }
func (statusFlag) choices() []string { return statusNames() }
func (byFlag) choices() []string     { return []string{byTarget, byHour, byWorker} }
func (formatFlag) choices() []string { return []string{"jsonl", "csv"} }

// choicesOf are the words that a flag takes, where it takes certain ones only.
func choicesOf(f *flag.Flag) []string {
	if c, ok := f.Value.(chooses); ok {
		return c.choices()
	}
	switch f.Name {
	case "output":
		return []string{"table", "json"}
	case "log-level":
		return []string{"trace", "debug", "info", "warn", "error"}
	case "sort":
		return []string{api.SortAge, api.SortCPU, api.SortMemory}
	case "result":
		return []string{"ok", "fail"}
	}
	return nil
}

// values are the values of a flag that are offered.
func (c *completing) values(ctx context.Context, name string) []candidate {
	f := c.known[name]
	if f == nil {
		return nil
	}
	switch name {
	case "config", "journal", "anchor", "out":
		return []candidate{{word: offerFiles}}
	case "target":
		return c.targets(ctx, "")
	case "worker":
		return c.workers(ctx)
	}
	choices := choicesOf(f)
	if _, list := f.Value.(*kindsFlag); list { // the word may have some of them already
		before := c.last[:strings.LastIndexAny(c.last, ",=")+1]
		if strings.Contains(before, "=") {
			before = before[strings.Index(before, "=")+1:]
		}
		for i := range choices {
			choices[i] = before + choices[i]
		}
	}
	return candidates(choices)
}

// candidates offers words whose meaning is plain.
func candidates(words []string) (all []candidate) {
	for _, word := range words {
		all = append(all, candidate{word: word})
	}
	return all
}

// arguments are what the chosen command's usage says of its next argument.
func (c *completing) arguments(ctx context.Context) []candidate {
	forms := strings.Fields(strings.TrimPrefix(c.chosen.ShortUsage, c.chosen.Name))
	if end := slices.Index(forms, "|"); end >= 0 {
		forms = forms[:end]
	}
	at := len(c.args)
	if at >= len(forms) {
		if len(forms) == 0 || !strings.Contains(forms[len(forms)-1], "…") {
			return nil
		}
		at = len(forms) - 1
	}
	switch strings.Trim(forms[at], "[]…") {
	case "T":
		return c.targets(ctx, "")
	case "SIG":
		return signalNames()
	case "SHELL":
		return candidates(shells())
	case "ID":
		if all := c.targets(ctx, ":"); strings.Contains(c.chosen.ShortUsage, "T:ID") && len(all) > 0 {
			return append(all, candidate{word: offerUnfinished})
		}
	}
	return nil
}

func signalNames() (all []candidate) {
	for number := 1; number < firstRealTime; number++ {
		if name := unix.SignalName(unix.Signal(number)); name != "" {
			all = append(all, candidate{word: strings.TrimPrefix(name, "SIG")})
		}
	}
	return all
}

// targets are those of the worker, or of the master's workers, each with an end. A worker's jobs
// need none.
func (c *completing) targets(ctx context.Context, end string) (all []candidate) {
	if !c.configure() || end != "" && !c.config.master {
		return nil
	}
	for _, name := range c.served(ctx) {
		all = append(all, candidate{word: name + end})
	}
	return all
}

// served are the targets that the daemon tells of, in their order; none where it does not answer.
func (p *program) served(ctx context.Context) []string {
	if !p.config.master {
		var status workerStatus
		p.askQuietly(ctx, api.Status.Name, nil, &status)
		return slices.Sorted(maps.Keys(status.Targets))
	}
	var status masterStatus
	p.askQuietly(ctx, api.MasterStatus.Name, api.Polling{}, &status)
	served := map[string]bool{}
	for _, worker := range status.Workers {
		for _, name := range worker.Targets {
			served[name] = true
		}
	}
	return slices.Sorted(maps.Keys(served))
}

func (c *completing) workers(ctx context.Context) (all []candidate) {
	if !c.configure() || !c.config.master {
		return nil
	}
	var status masterStatus
	c.askQuietly(ctx, api.MasterStatus.Name, api.Polling{}, &status)
	for _, worker := range status.Workers {
		all = append(all, candidate{word: worker.Name, about: strings.Join(worker.Targets, ", ")})
	}
	return all
}

// askQuietly asks, and leaves the answer as it is where there is none.
func (p *program) askQuietly(ctx context.Context, typ string, data, into any) {
	_ = p.linked(ctx, func(ctx context.Context, c *client) error { return c.askInto(ctx, typ, data, into) })
}

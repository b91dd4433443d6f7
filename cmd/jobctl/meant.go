package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"jobd/cmd/internal/conf"
	jobnet "jobd/net"
)

// meantTargets adds to a refusal that says that a target is not found which one was probably meant:
// the daemon is asked what it serves. Where it does not say, the refusal stands as it is.
func (p *program) meantTargets(ctx context.Context, err error, names []string) error {
	var refused *jobnet.RemoteError
	if !errors.As(err, &refused) {
		return err
	}
	near := p.nearTargets(ctx)
	for _, name := range names {
		if strings.Contains(refused.Text, "target '"+clean(name)+"' not found") {
			err = fmt.Errorf("%w%s", err, near(name))
		}
	}
	return err
}

// nearTargets gives the end of a sentence that names the target that was probably meant; "" where no
// name is near. The daemon is asked once, when the first one is looked for.
func (p *program) nearTargets(ctx context.Context) func(name string) string {
	served := sync.OnceValue(func() []string {
		ctx, cancel := context.WithTimeout(ctx, completeLimit)
		defer cancel()
		return p.served(ctx)
	})
	return func(name string) string {
		if near := conf.Nearest(name, served()); near != "" {
			return "; the nearest known one is " + clean(near)
		}
		return ""
	}
}

// noteUnserved says on stderr that a target, for which nothing was found, is served by nobody who
// can be asked: perhaps it is misspelt. Where the daemon does not tell, nothing is said.
func (p *program) noteUnserved(ctx context.Context, target string) {
	ctx, cancel := context.WithTimeout(ctx, completeLimit)
	defer cancel()
	if target == "" {
		return
	}
	served := p.served(ctx)
	if len(served) == 0 || slices.Contains(served, target) {
		return
	}
	who, near := "the worker does not serve it", ""
	if p.config.master {
		who = "no worker serves it"
	}
	if name := conf.Nearest(target, served); name != "" {
		near = "; the nearest known one is " + clean(name)
	}
	fmt.Fprintf(p.err, "jobctl: target '%s': %s%s\n", clean(target), who, near)
}

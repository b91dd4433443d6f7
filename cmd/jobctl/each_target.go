package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"jobd/net/api"
)

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

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	jobnet "jobd/net"
	"jobd/net/api"
)

// census is what was asked of a daemon for status and queue: a worker, or a master and its workers.
type census struct {
	said    json.RawMessage // the daemon's answer to status, as it came
	master  *masterStatus   // nil: it is a worker
	workers []told[*workerStatus]
	waiting map[string]api.WaitingTarget // by target; one that is not here could not be counted
	why     []error                      // why some could not
	lost    bool                         // how many wait in all is not known
}

// takeCensus asks for the status of everything that the daemon at the other end leads to. A worker that
// does not answer its master has an error.
func takeCensus(ctx context.Context, c *client) (s *census, err error) {
	if !c.master {
		s = &census{workers: make([]told[*workerStatus], 1)}
		if s.said, err = c.ask(ctx, api.Status.Name, nil); err != nil {
			return nil, err
		}
		s.workers[0].from = &remote{client: c}
		return s, c.understand(api.Status.Name, s.said, &s.workers[0].answer)
	}
	s = &census{master: &masterStatus{}}
	if s.said, err = c.ask(ctx, api.MasterStatus.Name, api.Polling{Workers: true}); err != nil {
		return nil, err
	}
	if err := c.understand(api.Status.Name, s.said, s.master); err != nil {
		return nil, err
	}
	for _, w := range s.master.Workers {
		one := told[*workerStatus]{
			from:   &remote{client: c, name: w.Name, address: net.JoinHostPort(w.RemoteAddr, strconv.Itoa(w.RemotePort))},
			answer: w.Status,
		}
		if w.Status == nil {
			one.err = &jobnet.RemoteError{Text: cmp.Or(clean(w.StatusError), "it told nothing")}
		}
		s.workers = append(s.workers, one)
	}
	return s, nil
}

// understand decodes an answer.
func (c *client) understand(typ string, answer json.RawMessage, into any) error {
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s: answer to %s is not understood: %w", c.address, typ, err)
	}
	return nil
}

// tellsMore tells whether a worker says more than the original and older versions do: what runs, and
// how the database is. They can't count what waits, either.
func tellsMore(s *workerStatus) bool { return s.Database != nil }

// count asks how many rows wait for targets: for each of them one worker that serves it, as all of
// them have the same table, and any worker for a target that nobody serves. Where one can't tell,
// the next one is asked.
func (s *census) count(ctx context.Context, targets []string) {
	s.waiting, s.why = make(map[string]api.WaitingTarget, len(targets)), nil
	left := make(map[string]bool, len(targets))
	for _, target := range targets {
		left[target] = true
	}
	for _, serving := range []bool{true, false} {
		for _, w := range s.workers {
			if w.err != nil || !tellsMore(w.answer) {
				continue
			}
			var mine []string
			for _, target := range slices.Sorted(maps.Keys(left)) {
				if _, serves := w.answer.Targets[target]; serves || !serving && !s.served(target) {
					mine = append(mine, target)
				}
			}
			if len(mine) > 0 {
				s.countWith(ctx, w.from, mine, left)
			}
		}
	}
	s.lost = len(left) > 0 && (len(s.why) > 0 || len(s.waiting) == 0)
}

// countWith asks one worker, and strikes from the list what it has counted.
func (s *census) countWith(ctx context.Context, from *remote, targets []string, left map[string]bool) {
	var rows api.WaitingRows
	if err := from.ask(ctx, api.Waiting.Name, map[string]any{"targets": targets}, &rows); err != nil {
		s.why = append(s.why, named(from, err))
		return
	}
	errs := make(map[string]bool)
	for _, target := range targets {
		switch counted, there := rows.Targets[target]; {
		case !there:
		case counted.Error == "":
			s.waiting[target] = counted
			delete(left, target)
		case !errs[counted.Error]:
			errs[counted.Error] = true
			s.why = append(s.why, named(from, &jobnet.RemoteError{Text: "rows of target " + clean(target) + ": " + clean(counted.Error)}))
		}
	}
}

// served tells whether a worker that has answered serves a target.
func (s *census) served(target string) bool {
	return slices.ContainsFunc(s.workers, func(w told[*workerStatus]) bool {
		if w.err != nil {
			return false
		}
		_, serves := w.answer.Targets[target]
		return serves
	})
}

// targets are those that the workers which have answered serve.
func (s *census) targets() []string {
	all := make(map[string]bool)
	for _, w := range s.workers {
		if w.err == nil {
			for target := range w.answer.Targets {
				all[target] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// unserved are the targets that were poked and that nobody serves, as far as the master names them.
func (s *census) unserved() (targets []string) {
	if s.master != nil {
		for _, u := range s.master.Unserved {
			targets = append(targets, u.Target)
		}
	}
	return targets
}

// silent names the workers that did not answer their master.
func (s *census) silent() error {
	if s.master == nil {
		return nil
	}
	return silent(s.workers)
}

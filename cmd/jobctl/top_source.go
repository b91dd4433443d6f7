package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"jobd/cmd/jobctl/live"
	jobnet "jobd/net"
	"jobd/net/api"
)

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

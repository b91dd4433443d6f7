package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/net/api"
)

// How long processes may take to be replaced, where --timeout says nothing.
const recycleLimit = 5 * time.Minute

func (p *program) recycle() *ffcli.Command {
	var wait bool
	c := command("recycle", "recycle [T…] [--wait]", "replace the processes that are kept for jobs of these targets, or of all, by new ones that have loaded the application anew, one after the other and none while it has a job", func(ctx context.Context, args []string) error {
		recycle := p.recycleAndWait
		if !wait {
			recycle = func(ctx context.Context, args []string) error { return p.tellTargets(ctx, api.Recycle, args) }
		}
		if err := recycle(ctx, args); err != nil || len(args) > 0 {
			return err
		}
		p.noteNoneKept(ctx)
		return nil
	})
	c.FlagSet.BoolVar(&wait, "wait", false, "wait until all old processes are gone, for --timeout (default: 5m) at most; exit code 1 if some are left")
	return c
}

// noteNoneKept tells who had all processes replaced that no target keeps any, as far as all workers
// say so. It is no error: there was nothing to replace.
func (p *program) noteNoneKept(ctx context.Context) {
	kept := true // if nobody tells
	_ = p.linked(ctx, func(ctx context.Context, c *client) error {
		s, err := takeCensus(ctx, c)
		kept = err != nil || len(s.workers) == 0 || slices.ContainsFunc(s.workers, func(w told[*workerStatus]) bool {
			return w.err != nil || w.answer == nil || slices.ContainsFunc(w.answer.Executors, func(e api.ExecutorStatus) bool { return e.Kept() })
		})
		return nil
	})
	if !kept {
		p.note(errors.New("recycle: nothing was replaced: no target keeps processes (launcher_mode = fork or pool)"))
	}
}

// recycleAndWait has processes replaced, and waits until none of the old ones is left.
func (p *program) recycleAndWait(ctx context.Context, targets []string) error {
	done, err := askFor(ctx, p, api.Recycle, api.Targets{Targets: targets, Detail: p.config.master})
	if err != nil {
		return p.meantTargets(ctx, mayBeDone(err, api.Recycle.Name), targets)
	}
	missed := p.missed(ctx, api.Recycle.Name, done)
	if missed != nil && done.Workers != nil && *done.Workers == 0 {
		return missed
	}
	if err := p.awaitRecycled(ctx, targets); err != nil || p.json() {
		return errors.Join(err, missed)
	}
	_, err = fmt.Fprintln(p.out, "ok: no old process is left")
	return errors.Join(err, missed)
}

// awaitRecycled looks again and again until no process of these targets, or of all, is old. A daemon
// that can't be reached meanwhile is waited for.
func (p *program) awaitRecycled(ctx context.Context, targets []string) error {
	limit := cmp.Or(p.config.timeout, recycleLimit)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	waiting := jobWait{program: p} // for its rests
	var left []string              // as it was seen last
	for pause := firstLook; ; {
		err := p.linked(ctx, func(ctx context.Context, c *client) error {
			s, err := takeCensus(ctx, c)
			if err != nil {
				return err
			}
			left, err = oldProcesses(s, targets)
			return err
		})
		var final *finalError
		switch {
		case errors.As(err, &final) || err != nil && isPassword(err):
			return err
		case err == nil && len(left) == 0:
			return nil
		case err != nil && (ctx.Err() == nil || len(left) == 0):
			left = []string{err.Error()}
		}
		if waiting.rest(ctx, &pause) == nil {
			continue
		}
		if interrupted(ctx) {
			return context.Cause(ctx)
		}
		return fmt.Errorf("recycle: after %v not all old processes are gone; they go as soon as they can: %s", limit, strings.Join(left, "; "))
	}
}

// oldProcesses says which workers have old processes of these targets, or of all, and why.
func oldProcesses(s *census, targets []string) (left []string, err error) {
	for _, w := range s.workers {
		whose := ""
		if s.master != nil {
			whose = "worker " + clean(w.from.name) + ": "
		}
		if w.err != nil {
			left = append(left, whose+w.err.Error())
			continue
		}
		for i := range w.answer.Executors {
			e := &w.answer.Executors[i]
			switch {
			case !e.Kept() || len(targets) > 0 && !slices.Contains(targets, e.Target):
			case e.Old == nil:
				return nil, &finalError{fmt.Errorf("recycle: %sit is an older jobd, and can't tell which of its processes are old; they are replaced all the same", whose)}
			case *e.Old > 0:
				left = append(left, fmt.Sprintf("%starget %s has %s%s", whose, clean(e.Target), oldText(*e.Old), whyOld(e)))
			}
		}
	}
	return left, nil
}

// whyOld is why the old processes of a target are still there, as far as that can be told.
func whyOld(e *api.ExecutorStatus) string {
	switch why := cmp.Or(e.Unready, e.Failing); {
	case why != "":
		return ", since no new one gets ready: " + inALine(why)
	case e.Busy > 0:
		return ", while jobs run"
	}
	return ""
}

func oldText(n int) string {
	if n == 1 {
		return "1 old process"
	}
	return fmt.Sprintf("%d old processes", n)
}

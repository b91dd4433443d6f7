package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/net/api"
)

// aboutTargets is a command that is one request about targets; without any it is about all.
func (p *program) aboutTargets(usage, help string, r api.Request[api.Targets, api.Done]) *cmd {
	return command(usage, help, func(ctx context.Context, args []string) error {
		if len(args) == 0 && r.Name == api.Poke.Name {
			return wrongUsage("poke: needs at least one target")
		}
		return p.tellTargets(ctx, r, args)
	})
}

// ofOneWorker is a command that changes the targets of one worker.
func ofOneWorker[Q any](p *program, usage, help string, r api.Request[Q, api.Done], read func(name string, args []string) (Q, error)) *cmd {
	return command(usage, help, func(ctx context.Context, args []string) error {
		query, err := read(r.Name, args)
		if err != nil {
			return err
		}
		return tell(ctx, p, r, query)
	}).of("worker")
}

func (p *program) poll() *cmd {
	return p.aboutTargets("poll [T…]", "look for jobs of these targets, or of all", api.Poll).of("worker")
}

func (p *program) poke() *cmd {
	return p.aboutTargets("poke T…", "have the workers that serve these targets look for jobs", api.Poke).of("master")
}

func (p *program) pause() *cmd {
	return p.aboutTargets("pause [T…]", "start no more jobs of these targets, or of all", api.Pause)
}

func (p *program) resume() *cmd {
	return p.aboutTargets("continue [T…]", "end the pause of these targets, or of all", api.Continue)
}

func (p *program) addTarget() *cmd {
	return ofOneWorker(p, "add-target T N", "serve one more target, with N jobs at once", api.AddTarget, readSlots)
}

func (p *program) removeTarget() *cmd {
	return ofOneWorker(p, "remove-target T", "serve a target no more; its queue must be empty", api.RemoveTarget,
		func(name string, args []string) (api.Target, error) {
			if len(args) != 1 {
				return api.Target{}, wrongUsage("%s: needs one target, got %q", name, args)
			}
			return api.Target{Target: args[0]}, nil
		})
}

func (p *program) setTargetConcurrency() *cmd {
	var may consent
	c := command("set-target-concurrency T N [--dry-run] [--yes]", "run up to N jobs of a target at once: on the worker, "+
		"or with --master on each worker that serves it; a reload or a restart goes back to the configuration file", func(ctx context.Context, args []string) error {
		slots, err := readSlots("set-target-concurrency", args)
		switch {
		case err != nil:
			return err
		case p.config.master:
			return p.setConcurrencyOfAll(ctx, may, slots)
		}
		return tell(ctx, p, api.SetConcurrency, slots)
	})
	may.flags(c, "with --master: ")
	return c
}

// setConcurrencyOfAll sets how many jobs of a target each worker that serves it runs at once.
func (p *program) setConcurrencyOfAll(ctx context.Context, may consent, slots api.Slots) error {
	has := clean(slots.Target) + " would have " + screen.Count(slots.Concurrency, "slot")
	return p.oneByOne(ctx, fleetWork{
		consent: &may, target: slots.Target,
		question: func(n int) string {
			return fmt.Sprintf("Target %s on %s, %d in all.", has, workersText(n), n*slots.Concurrency)
		},
		none: p.missed(api.SetConcurrency.Name, api.Done{Unserved: []string{slots.Target}}),
		head: []string{"WORKER", "TARGET", "SLOTS", "THEN"},
		row: func(w worker) []any {
			if w.Err != nil {
				return []any{w.From.Name, slots.Target, "", slots.Concurrency}
			}
			return []any{w.From.Name, slots.Target, w.Value.Targets[slots.Target].Concurrency, slots.Concurrency}
		},
		act: func(ctx context.Context, w worker) ([]string, any, error) {
			var done api.Done
			err := w.From.Ask(ctx, api.SetConcurrency.Name, slots, &done)
			return []string{"target " + clean(slots.Target) + " has " + screen.Count(slots.Concurrency, "slot")}, slots, err
		},
	})
}

func readSlots(name string, args []string) (api.Slots, error) {
	if len(args) != 2 {
		return api.Slots{}, wrongUsage("%s: needs a target and a number, got %q", name, args)
	}
	concurrency, err := strconv.Atoi(args[1])
	if err != nil || concurrency < 1 {
		return api.Slots{}, wrongUsage("%s: concurrency %q is not allowed; allowed: a whole number of at least 1", name, args[1])
	}
	return api.Slots{Target: args[0], Concurrency: concurrency}, nil
}

// tell sends a request about targets whose answer is "ok", and prints that, unless nobody was there
// to do it.
func tell[Q any](ctx context.Context, p *program, r api.Request[Q, api.Done], query Q) error {
	var done api.Done
	if err := p.askFor(ctx, r.Name, query, &done); err != nil {
		return operator.MayBeDone(err, r.Name)
	}
	missed := p.missed(r.Name, done)
	if p.json() || missed != nil && done.Workers != nil && *done.Workers == 0 {
		return missed
	}
	p.say("%s\n", clean(done.Result))
	return missed
}

// missed says which targets nobody serves. A poke for them is kept until somebody does; nothing was
// paused or continued for them, and that is an error.
func (p *program) missed(typ string, done api.Done) error {
	if done.Workers != nil && *done.Workers == 0 && len(done.Unserved) == 0 && typ != api.Poke.Name {
		return fmt.Errorf("%s: no worker is registered with the master: nothing was done", typ)
	}
	var missed []error
	for _, target := range done.Unserved {
		err := fmt.Errorf("no worker serves target '%s'", clean(target))
		if typ == api.Poke.Name {
			p.note(fmt.Errorf("%w now; the poke is kept until one does", err))
			continue
		}
		missed = append(missed, err)
	}
	return errors.Join(missed...)
}

// tellTargets is tell about targets; none stands for all. A master is asked whom that is about.
func (p *program) tellTargets(ctx context.Context, r api.Request[api.Targets, api.Done], targets []string) error {
	return tell(ctx, p, r, api.Targets{Targets: targets, Detail: p.config.master})
}

// How long a worker may take to serve again, where --timeout says nothing, and how it is asked
// meanwhile.
const (
	restartLimit = time.Minute
	restartLook  = 100 * time.Millisecond // between two looks
	restartPeer  = 5 * time.Second        // for one look
)

func (p *program) restart() *cmd {
	var may consent
	all := false
	c := command("restart [--all [--dry-run] [--yes]]", "restart the worker with the binary that is installed now; running jobs go on. "+
		"With --master --all: each worker of the master, one after the other", func(ctx context.Context, args []string) error {
		work := fleetWork{act: p.restartOne, stops: true}
		switch {
		case all && !p.config.master:
			return wrongUsage("restart: --all needs --master: it restarts all workers of a master")
		case p.config.master && !all:
			return wrongUsage("restart: give --all to restart all workers of the master, one after the other; " +
				"for one of them omit --master, and give its --host and --port")
		case all:
			work.consent, work.head = &may, []string{"WORKER", "PID", "VERSION"}
			work.question = func(n int) string {
				return fmt.Sprintf("%s would be restarted, one after the other.", screen.Count(n, "worker"))
			}
			work.none = errors.New("no worker is registered with the master: nothing was restarted")
			work.row = func(w worker) []any {
				if w.Err != nil {
					return []any{w.From.Name, "", ""}
				}
				return []any{w.From.Name, w.Value.PID, w.Value.Version}
			}
		}
		return p.oneByOne(ctx, work)
	})
	c.FlagSet.BoolVar(&all, "all", false, "all workers of the master, one after the other, each when the one before it serves again")
	may.flags(c, "with --master: ")
	return c
}

// restartOne restarts a worker, and waits until its next run serves. The worker says no while nothing is lost
// yet. After its yes it leaves its links, and the yes may be lost: then only its next run can tell.
func (p *program) restartOne(ctx context.Context, w worker) (lines []string, form any, err error) {
	before := w.Value
	if before.Started == 0 {
		return nil, nil, errors.New("it is an older jobd, which does not tell when it serves again: restart it on its host")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(p.config.timeout, restartLimit), errNotAgain)
	defer cancel()
	look := func(ctx context.Context) (*workerStatus, error) { return ofWorker(ctx, p.asked, w.From.Name) }
	var answer api.Restarted
	if err := w.From.Ask(ctx, api.Restart.Name, api.Restarting{Next: true}, &answer); err != nil && !operator.LeftOpen(err, api.Restart.Name) {
		// Its master may have lost the yes. A worker that is still there said no.
		if now, unseen := look(ctx); unseen == nil && sameRun(now, before) {
			return nil, nil, err
		}
	}
	where := ""
	if d := p.asked; !d.Master {
		if host, _, err := net.SplitHostPort(d.Where()); err == nil && answer.Next != nil { // it may have another port
			if _, port, err := net.SplitHostPort(answer.Next.Address); err == nil {
				d.Move(net.JoinHostPort(host, port))
			}
		}
		where = ", at " + d.Where()
	}
	after, err := awaitNext(ctx, before, look)
	if err != nil {
		return nil, nil, err
	}
	served := fmt.Sprintf("process %d serves again, version %s%s", after.PID, clean(after.Version), where)
	form = map[string]any{"pid": after.PID, "startedAt": after.Started, "version": after.Version}
	return append([]string{served}, undone(before.Targets, after.Targets)...), form, nil
}

// ofWorker is how a worker stands that its master knows by a name, or that is asked itself.
func ofWorker(ctx context.Context, d *operator.Daemon, name string) (*workerStatus, error) {
	if !d.Master {
		d.Move(d.Where()) // over the link to the old run only that answers
	}
	s, err := operator.TakeCensus(ctx, d)
	if err != nil {
		return nil, err
	}
	for _, w := range s.Workers {
		if w.From.Name == name && w.Value != nil {
			return w.Value, nil
		}
	}
	return nil, errors.New("the master does not see it")
}

// worker is a worker of a master, or the one that is asked, and how it stands.
type worker = operator.Answer[*workerStatus]

// fleetWork is what is to be done with each worker of a master, one after the other, how it is shown and
// asked for.
type fleetWork struct {
	*consent // nil: nobody is asked
	question func(workers int) string
	none     error // where no worker is meant
	head     []string
	row      func(worker) []any
	act      func(context.Context, worker) (lines []string, form any, err error)
	stops    bool   // at the first worker that fails
	target   string // that it is about: workers that don't serve it are not meant; "": all are
}

// oneByOne has each worker that is meant do something, and prints what each says.
func (p *program) oneByOne(ctx context.Context, work fleetWork) error {
	s, err := operator.TakeCensus(ctx, p.daemon())
	if err != nil {
		return err
	}
	workers := slices.DeleteFunc(s.Workers, func(w worker) bool {
		if work.target == "" || w.Err != nil { // which serves it for all that is known
			return false
		}
		_, serves := w.Value.Targets[work.target]
		return !serves
	})
	if len(workers) == 0 && work.none != nil {
		return work.none
	}
	if work.consent != nil {
		show := func() error {
			t := p.table("", "", work.head...)
			for _, w := range workers {
				t.add(work.row(w)...)
			}
			return t.end(nil)
		}
		if given, err := p.given(ctx, *work.consent, work.question(len(workers)), show); !given {
			return err
		}
	}
	var failed []error
	all := make(map[string]any, len(workers))
	for i, w := range workers {
		name, err := w.From.Name, w.Err
		if s.Master == nil {
			name = cmp.Or(w.Value.Name, "at "+p.daemon().Where())
		}
		var lines []string
		if err == nil {
			lines, all[name], err = work.act(ctx, w)
		}
		if err != nil {
			delete(all, name)
			failed = append(failed, fmt.Errorf("worker %s: %w", clean(name), err))
			if work.stops && i+1 < len(workers) {
				failed = append(failed, fmt.Errorf("left as they are: %s", namesOf(workers[i+1:])))
				break
			}
		} else if !p.json() {
			p.say("worker %s: %s\n", clean(name), strings.Join(lines, "\n  "))
		}
	}
	if p.json() {
		p.printJSON(map[string]any{"workers": all})
	}
	return exit.Join(append(failed, p.leftOut(s, work.target)...)...)
}

// leftOut says which workers are down, and so had nothing done; with a target, those that served it.
func (p *program) leftOut(s *operator.Census, target string) (errs []error) {
	if s.Master == nil {
		return nil
	}
	for _, w := range s.Master.Down {
		if target == "" || slices.Contains(w.Targets, target) || w.TargetsCut > 0 {
			errs = append(errs, fmt.Errorf("worker %s: nothing was done there", p.downText(w)))
		}
	}
	return errs
}

func workersText(n int) string {
	if n == 1 {
		return "1 worker"
	}
	return fmt.Sprintf("each of %d workers", n)
}

func namesOf(workers []worker) string {
	var names []string
	for _, w := range workers {
		names = append(names, w.From.Name)
	}
	return cleaned(names)
}

func (p *program) reload() *cmd {
	return command("reload", "read the configuration file again, and say what has changed; with --master all workers do, "+
		"one after the other", func(ctx context.Context, args []string) error {
		return p.oneByOne(ctx, fleetWork{act: func(ctx context.Context, w worker) ([]string, any, error) {
			var told api.Reloaded
			err := w.From.Ask(ctx, api.Reload.Name, api.None{}, &told)
			return reloadText(told), told, err
		}})
	})
}

// reloadText is what a worker has taken over, in lines.
func reloadText(told api.Reloaded) []string {
	changed := "nothing has changed in"
	if len(told.Changed) > 0 {
		changed = cleaned(told.Changed) + " changed in"
	}
	lines := []string{changed + " " + clean(told.File)}
	lines = append(lines, undone(told.Before, told.After)...)
	if len(told.Later) > 0 {
		lines = append(lines, "from its next start on: "+cleaned(told.Later)+" (jobctl restart)")
	}
	for _, warning := range told.Warnings {
		lines = append(lines, "warning: "+clean(warning))
	}
	return lines
}

// cleaned joins texts of somebody else's.
func cleaned(texts []string) string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = clean(text)
	}
	return strings.Join(list, ", ")
}

// sameRun tells whether a worker is the same process, and has not started anew in it.
func sameRun(now, before *workerStatus) bool {
	return now.PID == before.PID && now.Started == before.Started
}

// undone says what was set by hand and is as the file says now: pauses, and concurrencies.
func undone(before, after map[string]api.TargetStatus) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		was := before[name]
		now, there := after[name]
		switch {
		case !there:
			lines = append(lines, fmt.Sprintf("target %s is not served any more: the file does not have it", clean(name)))
			continue
		case was.Concurrency != now.Concurrency:
			lines = append(lines, fmt.Sprintf("target %s: %s → %d, as the file says", clean(name), screen.Count(was.Concurrency, "slot"), now.Concurrency))
		}
		if was.Paused && !now.Paused {
			lines = append(lines, fmt.Sprintf("target %s was paused, it is not now", clean(name)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, was := before[name]; !was {
			lines = append(lines, fmt.Sprintf("target %s is served now: %s, as the file says", clean(name), screen.Count(after[name].Concurrency, "slot")))
		}
	}
	return lines
}

var errNotAgain = errors.New("the worker did not come back in time")

// awaitNext looks again and again until the worker is another process, or the same one anew.
func awaitNext(ctx context.Context, before *workerStatus, look func(context.Context) (*workerStatus, error)) (now *workerStatus, err error) {
	last := errors.New("the former process still answers")
	lasting := operator.Lasting{
		Outlives: func(err error) bool { return !operator.IsPassword(err) }, Tell: func(err error) { last = err }, Most: restartLook,
	}
	err = lasting.Run(ctx, func() (time.Duration, error) {
		looking, cancel := context.WithTimeout(ctx, restartPeer)
		defer cancel()
		now, err = look(looking)
		if err == nil && !sameRun(now, before) {
			return -1, nil
		}
		return restartLook, err
	})
	switch {
	case err != nil && operator.IsPassword(err):
		return now, fmt.Errorf("the worker has started again, with another password than the one given: %w", err)
	case err != nil:
		return now, exit.With(exit.Late, fmt.Errorf("%w; its log says why; last seen: %w", context.Cause(ctx), last))
	}
	return now, nil
}

func (p *program) recycle() *cmd {
	return p.aboutTargets("recycle [T…]", "replace the pool processes of these targets, or of all, "+
		"by new ones that load the application anew: one after the other, each when it has no job", api.Recycle)
}

package exec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/board"
)

// errMode says that a start was announced for another executor than the target has by now.
var errMode = fmt.Errorf("its target's executor was replaced: %w", ErrRunnerChanged)

// startWith asks the executor of a launcher for a start.
func (w *Worker) startWith(l Launcher, s board.Start, more []string) (Process, error) {
	spec := Spec{Job: s.ID(), Attempt: s.Attempt()}
	switch mode := l.Mode; {
	case mode.Executor() != s.Executor():
		return nil, errMode
	case mode.Pooled():
		spec.Argv, spec.Vars, spec.Account = l.Words, more, l.Account
	case mode.Requests():
		spec.Argv, spec.Vars, spec.Service = l.Words, more, l.Service
	default:
		var err error
		if spec, err = l.spec(s.ID(), s.Attempt(), more); err != nil {
			return nil, err
		}
	}
	spec.Mode, spec.Target, spec.Token = l.Mode, s.Target(), s.Token()
	spec.Timeout, spec.KillAfter = s.Limits()
	spec.MaxOutput, spec.Runner = w.MaxOutput, s.Runner()
	spec.Tell = w.hear
	if l.Mode.Requests() {
		return w.Requester.Start(spec)
	}
	return w.Runner.Start(spec)
}

// goOn lets processes that are held do their work, now that they are journalled, or ends those that
// are not to.
func (w *Worker) goOn(held []board.Held) {
	for _, h := range held {
		process, is := h.Process.(Held)
		switch {
		case is && h.Go:
			process.Proceed()
		case is:
			w.others.Go(func() {
				if err := process.Signal(int(unix.SIGKILL)); err != nil {
					w.Logger.Warn("a request that must not be sent could not be withdrawn", "error", err)
				}
			})
		}
	}
}

// SetReady notes why the executor of a target can't start jobs; "": it can. Pools and services call it.
// mode is the executor's mode: if the target has another mode by now, the call changes nothing. SetReady
// does not block.
func (w *Worker) SetReady(target string, mode Mode, why string) {
	w.change(func(b *board.Board) board.Effects {
		t := b.Target(target)
		if t == nil || w.launcherOf(target).Mode != mode {
			return board.Effects{}
		}
		return b.SetUnable(t, unable(mode, why), time.Now())
	})
}

// unable says so in words.
func unable(mode Mode, why string) string {
	switch {
	case why == "":
		return ""
	case mode == ModeGearman:
		return why
	case mode.Requests():
		return "the service that runs its jobs can't be reached: " + why
	}
	return "no process gets ready for its jobs: " + why
}

// declare tells the executors which pools and services the served targets need. Each method that changes
// targets, terms or launchers calls it afterwards.
func (w *Worker) declare() {
	w.declaring.Lock()
	defer w.declaring.Unlock()
	var pools []Pool
	services := make(map[string]Service)
	w.mu.Lock()
	for name, t := range w.targets {
		switch l := w.launcherOf(name); {
		case l.Mode.Pooled():
			pools = append(pools, l.pool(name, t.Concurrency()))
		case l.Mode.Requests():
			services[name] = l.Service
		}
	}
	w.mu.Unlock()
	slices.SortFunc(pools, func(one, other Pool) int { return strings.Compare(one.Target, other.Target) })
	w.Pools.SetPools(pools)
	w.Requester.SetServices(services)
}

// pool is the pool of a target with this launcher. Where the program is not in the PATH, the runner says
// so when it tries to execute it.
func (l Launcher) pool(target string, slots int) Pool {
	argv := slices.Clone(l.Words)
	if path, err := l.find(argv[0]); err == nil {
		argv[0] = path
	}
	return Pool{Target: target, Mode: l.Mode, Argv: argv, Dir: l.Dir, Env: l.Env, Account: l.Account, Slots: slots, Keep: l.Keep}
}

// Recycle replaces the pool processes of targets (none named: all), one after the other. why is in words
// for people: who wants it, or what has changed.
func (w *Worker) Recycle(names []string, why string) error {
	var problems []error
	pooled := slices.DeleteFunc(w.pooledTargets(), func(name string) bool { return len(names) > 0 && !slices.Contains(names, name) })
	for _, name := range names {
		switch {
		case !w.Serves(name):
			problems = append(problems, RefusedError("target '"+name+"' not found"))
		case !slices.Contains(pooled, name):
			problems = append(problems, RefusedError("target '"+name+"' has no pool processes: its launcher_mode is not fork or pool"))
		}
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	w.recycle(pooled, why)
	return nil
}

func (w *Worker) recycle(targets []string, why string) {
	if len(targets) > 0 {
		w.Logger.Info("pool processes are replaced", "targets", targets, "why", why)
		w.Pools.Recycle(targets, why)
	}
}

// pooledTargets lists the targets whose jobs run in pool processes.
func (w *Worker) pooledTargets() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.board.Names() {
		if w.launcherOf(name).Mode.Pooled() {
			names = append(names, name)
		}
	}
	return names
}

// executors tells how the targets' pools and services stand, in the order of the targets. It also lists the
// launchers of a target's own that can start no job.
func (w *Worker) executors() (all []PoolStanding) {
	told := make(map[string]PoolStanding)
	for _, s := range append(w.Pools.Standings(), w.Requester.Standings()...) {
		told[s.Target] = s
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.board.Names() {
		t, l, s := w.targets[name], w.launcherOf(name), told[name]
		why, since := "", time.Time{}
		if t.Starter().Own() {
			why, since = t.Starter().Why()
		}
		switch {
		case l.Mode.Requests(): // nobody needs to know how many connections are being made, or have no job
			s = PoolStanding{Mode: l.Mode, Address: l.Service.where(), Busy: t.Running(), Boots: s.Boots, Jobs: s.Jobs}
		case l.Mode.Pooled():
			s.Mode = l.Mode
		case why == "":
			continue
		default:
			s = PoolStanding{Mode: ModeProcess, Address: l.Words[0], Busy: t.Running()}
		}
		if s.Target, s.Slots = name, t.Concurrency(); why != "" && s.Unready == "" {
			s.Unready, s.Since = why, since.UnixMilli()
		}
		all = append(all, s)
	}
	return all
}

// where is where requests are sent, for people.
func (s Service) where() string {
	switch s.Mode {
	case ModeHTTP:
		return s.URL
	case ModeGearman:
		return "Gearman workers"
	}
	return s.Address + " " + s.Script
}

// look checks a launcher. If the file system hangs, look waits for it.
func (w *Worker) look(s *board.Starter) {
	w.mu.Lock()
	launcher := w.launcherOf(s.Target())
	w.mu.Unlock()
	err := launcher.Check()
	w.change(func(b *board.Board) board.Effects { return b.Looked(s, err, time.Now()) })
}

package runner

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
)

// What the runner keeps ready, and what was last heard of it. A runner has it for as long as it lives,
// whichever worker is there; a new runner hears all of it anew.

// pool is one that the worker wants. One of another mode is another pool. The wish that its processes
// be replaced stands in what the runner is told of the pool each time that a connection is made: so it
// is not lost with one, and is done once. A runner that was started after it has no process that is
// older.
type pool struct {
	jobexec.Pool
	wish int64 // tells the last one from others; 0: there was none
	why  string
	is   wire.Standing // as the runner tells
}

// SetPools implements jobexec.Pools.
func (r *Remote) SetPools(wanted []jobexec.Pool) {
	pools := make([]*pool, len(wanted))
	r.mu.Lock()
	for i, w := range wanted {
		pools[i] = &pool{}
		if before := r.find(w.Target, w.Mode); before != nil {
			*pools[i] = *before
		}
		pools[i].Pool = w
	}
	r.wanted = pools
	r.declare()
	r.mu.Unlock()
	r.tell()
}

// find is a pool that the worker wants; nil: it wants no such one. Callers must hold r.mu.
func (r *Remote) find(target string, mode jobexec.Mode) *pool {
	for _, w := range r.wanted {
		if w.Target == target && w.Mode == mode {
			return w
		}
	}
	return nil
}

// declare tells the runner which pools the worker wants. Callers must hold r.mu.
func (r *Remote) declare() {
	if r.wanted == nil || r.link == nil || !r.link.alive() {
		return
	}
	pools := make([]wire.Pool, 0, len(r.wanted))
	for _, w := range r.wanted {
		if w.Account != nil && !r.link.accounts { // it would be passed over
			continue
		}
		if w.Account != nil {
			r.link.guarding.Do(func() { go r.link.guard() })
		}
		pools = append(pools, wire.Pool{
			Target: w.Target, Mode: string(w.Mode), Argv: w.Argv, Dir: w.Dir, Env: w.Env, Account: w.Account, Slots: w.Slots,
			MaxJobs: w.Keep.MaxJobs, MaxAge: w.Keep.MaxAge, MaxMemory: w.Keep.MaxMemory,
			IdleTimeout: w.Keep.IdleTimeout, BootTimeout: w.Keep.BootTimeout, Watch: w.Keep.Watch,
			Wish: w.wish, Why: w.why,
		})
	}
	r.link.out.Post(wire.Message{Kind: wire.Pools, Wanted: pools})
}

// Recycle implements jobexec.Pools.
func (r *Remote) Recycle(targets []string, why string) (unknown []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, target := range targets {
		if i := slices.IndexFunc(r.wanted, func(w *pool) bool { return w.Target == target }); i >= 0 {
			r.wanted[i].wish, r.wanted[i].why = time.Now().UnixNano(), why // no wish of another worker has that number
		} else {
			unknown = append(unknown, target)
		}
	}
	r.declare()
	return unknown
}

// Standings implements jobexec.Pools.
func (r *Remote) Standings() []jobexec.PoolStanding {
	r.mu.Lock()
	defer r.mu.Unlock()
	standings := make([]jobexec.PoolStanding, len(r.wanted))
	for i, w := range r.wanted {
		s := w.is
		if w.wish != 0 && s.Wish != w.wish {
			s.Old = max(1, s.Processes) // the runner has not heard of it yet
		}
		standings[i] = jobexec.PoolStanding{
			Target: w.Target, Mode: w.Mode, Processes: s.Processes, Booting: s.Booting, Ready: s.Ready, Busy: s.Busy,
			Boots: s.Boots, Jobs: s.Jobs, Recycled: s.Recycled, Unready: s.Unready, Failing: s.Failing, Since: s.Since,
			Stranger: s.Stranger, StrangerAt: s.StrangerAt, Old: &s.Old,
		}
	}
	slices.SortFunc(standings, func(one, other jobexec.PoolStanding) int { return strings.Compare(one.Target, other.Target) })
	return standings
}

// heard takes in what the runner says of its pools.
func (r *Remote) heard(m *wire.Message) {
	r.mu.Lock()
	for _, s := range m.Standings {
		if w := r.find(s.Target, jobexec.Mode(s.Mode)); w != nil { // else it was removed
			w.is = s
		}
	}
	r.mu.Unlock()
	for _, n := range m.Notes {
		r.log(n)
	}
	r.tell()
}

// renew forgets the processes of a runner that is gone. What could not get ready there counts as that
// until the next one says otherwise. Callers must hold r.mu.
func (r *Remote) renew() {
	for _, w := range r.wanted {
		w.is = wire.Standing{Unready: w.is.Unready, Since: w.is.Since}
	}
}

// log puts a note of the runner into the worker's log.
func (r *Remote) log(n wire.Note) {
	args := []any{"target", n.Target}
	if n.Pid != 0 {
		args = append(args, "pid", n.Pid)
	}
	if n.Job != 0 {
		args = append(args, "job", n.Job)
	}
	r.config.Logger.Log(context.Background(), n.Level, inOneLine(n.Text), args...)
}

// inOneLine shows a text without control characters. What a process has written stands in it, and must
// not look like other lines of the log.
func inOneLine(text string) string {
	var b strings.Builder
	for _, r := range text {
		if quoted := strconv.QuoteRune(r); unicode.IsControl(r) {
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// tell tells the worker which pools can start jobs, and why others can't. Nobody may hold r.mu.
func (r *Remote) tell() {
	r.telling.Lock()
	defer r.telling.Unlock()
	if r.config.OnReady == nil {
		return
	}
	for _, s := range r.Standings() {
		r.config.OnReady(s.Target, s.Mode, s.Unready)
	}
}

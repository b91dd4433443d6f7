package runner

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
)

// pools is what the runner keeps ready, and what was last heard of it. A runner has it for as long as
// it lives, whichever worker is there; a new runner hears all of it anew.
type pools struct {
	onReady func(target string, mode jobexec.Mode, why string) // nil: nobody listens

	mu        sync.Mutex // before it the connector's is taken
	asked     bool       // the worker has said which it wants
	wanted    []jobexec.Pool
	wishes    map[string]wish          // by keyOf
	standings map[string]wire.Standing // by keyOf, as the runner tells

	telling sync.Mutex // held while the worker is told, so that it hears of changes in their order
}

// SetPools implements jobexec.Pools.
func (r *Remote) SetPools(wanted []jobexec.Pool) {
	c := &r.connector
	c.mu.Lock()
	p := &c.pools
	p.mu.Lock()
	p.want(wanted)
	p.mu.Unlock()
	if l := c.link; l != nil && l.alive() && !c.closed {
		c.declare(l)
	}
	c.mu.Unlock()
	p.tell()
}

// want says which pools the worker wants, and forgets what was said of others. Callers must hold p.mu.
func (p *pools) want(wanted []jobexec.Pool) {
	p.asked, p.wanted = true, slices.Clone(wanted)
	if p.wishes == nil {
		p.wishes, p.standings = make(map[string]wish), make(map[string]wire.Standing)
	}
	maps.DeleteFunc(p.wishes, func(key string, _ wish) bool { return !p.wants(key) })
	maps.DeleteFunc(p.standings, func(key string, _ wire.Standing) bool { return !p.wants(key) })
}

// wants tells whether the worker wants a pool. Callers must hold p.mu.
func (p *pools) wants(key string) bool {
	return slices.ContainsFunc(p.wanted, func(w jobexec.Pool) bool { return keyOf(w.Target, w.Mode) == key })
}

// keyOf tells pools apart: one of another mode is another pool.
func keyOf(target string, mode jobexec.Mode) string { return string(mode) + " " + target }

// declare tells the runner behind a link which pools the worker wants. Callers must hold c.mu.
func (c *connector) declare(l *link) {
	p := &c.pools
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked {
		l.out.Post(wire.Message{Kind: wire.Pools, Wanted: p.wire()})
	}
}

// wire is the wanted pools, in the words that the runner reads. Callers must hold p.mu.
func (p *pools) wire() []wire.Pool {
	pools := make([]wire.Pool, len(p.wanted))
	for i, w := range p.wanted {
		wished := p.wishes[keyOf(w.Target, w.Mode)]
		pools[i] = wire.Pool{
			Target: w.Target, Mode: string(w.Mode), Argv: w.Argv, Dir: w.Dir, Env: w.Env, Slots: w.Slots,
			MaxJobs: w.Keep.MaxJobs, MaxAge: w.Keep.MaxAge, MaxMemory: w.Keep.MaxMemory,
			IdleTimeout: w.Keep.IdleTimeout, BootTimeout: w.Keep.BootTimeout, Watch: w.Keep.Watch,
			Wish: wished.id, Why: wished.why,
		}
	}
	return pools
}

// Recycle implements jobexec.Pools.
func (r *Remote) Recycle(targets []string, why string) (unknown []string) {
	c := &r.connector
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recycle(targets, why)
}

// wish is that the processes of a pool be replaced. It stands in what the runner is told of the pool
// each time that a connection is made: so it is not lost with one, and is done once. A runner that was
// started after it has no process that is older.
type wish struct {
	id  int64
	why string
}

// recycle has processes replaced. Callers must hold c.mu.
func (c *connector) recycle(targets []string, why string) (unknown []string) {
	p := &c.pools
	p.mu.Lock()
	for _, target := range targets {
		if i := slices.IndexFunc(p.wanted, func(w jobexec.Pool) bool { return w.Target == target }); i >= 0 {
			// No wish of another worker has that number.
			p.wishes[keyOf(target, p.wanted[i].Mode)] = wish{time.Now().UnixNano(), why}
		} else {
			unknown = append(unknown, target)
		}
	}
	p.mu.Unlock()
	if l := c.link; l != nil && l.alive() {
		c.declare(l)
	}
	return unknown
}

// Standings implements jobexec.Pools.
func (r *Remote) Standings() []jobexec.PoolStanding { return r.connector.pools.all() }

// all is how all wanted pools stand, in the order of their targets.
func (p *pools) all() []jobexec.PoolStanding {
	p.mu.Lock()
	defer p.mu.Unlock()
	standings := make([]jobexec.PoolStanding, len(p.wanted))
	for i := range p.wanted {
		standings[i] = p.standing(&p.wanted[i])
	}
	slices.SortFunc(standings, func(one, other jobexec.PoolStanding) int { return strings.Compare(one.Target, other.Target) })
	return standings
}

// standing is how a wanted pool stands. Callers must hold p.mu.
func (p *pools) standing(of *jobexec.Pool) jobexec.PoolStanding {
	key := keyOf(of.Target, of.Mode)
	s := p.standings[key]
	if w, wished := p.wishes[key]; wished && s.Wish != w.id {
		s.Old = max(1, s.Processes) // the runner has not heard of it yet
	}
	return jobexec.PoolStanding{
		Target: of.Target, Mode: of.Mode, Processes: s.Processes, Booting: s.Booting, Ready: s.Ready, Busy: s.Busy,
		Boots: s.Boots, Jobs: s.Jobs, Recycled: s.Recycled, Unready: s.Unready, Failing: s.Failing, Since: s.Since,
		Stranger: s.Stranger, StrangerAt: s.StrangerAt, Old: &s.Old,
	}
}

// heard takes in what the runner says of its pools.
func (c *connector) heard(m *wire.Message) {
	p := &c.pools
	p.mu.Lock()
	for _, s := range m.Standings {
		if key := keyOf(s.Target, jobexec.Mode(s.Mode)); p.wants(key) { // else it was removed
			p.standings[key] = s
		}
	}
	p.mu.Unlock()
	for _, n := range m.Notes {
		c.log(n)
	}
	p.tell()
}

// renew forgets the processes of a runner that is gone. What could not get ready there counts as that
// until the next one says otherwise.
func (p *pools) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, s := range p.standings {
		p.standings[key] = wire.Standing{Unready: s.Unready, Since: s.Since}
	}
}

// log puts a note of the runner into the worker's log.
func (c *connector) log(n wire.Note) {
	args := []any{"target", n.Target}
	if n.Pid != 0 {
		args = append(args, "pid", n.Pid)
	}
	if n.Job != 0 {
		args = append(args, "job", n.Job)
	}
	c.config.Logger.Log(context.Background(), n.Level, inOneLine(n.Text), args...)
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

// tell tells the worker which pools can start jobs, and why others can't. Nobody may hold p.mu.
func (p *pools) tell() {
	p.telling.Lock()
	defer p.telling.Unlock()
	if p.onReady == nil {
		return
	}
	for _, s := range p.all() {
		p.onReady(s.Target, s.Mode, s.Unready)
	}
}

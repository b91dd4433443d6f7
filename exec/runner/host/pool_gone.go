package host

import (
	"fmt"
	"log/slog"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// unfit kills a process that does what it must not, and says so. What becomes of its job is known
// when it is gone.
func (k *kept) unfit(why string) {
	if k.why != "" {
		return
	}
	k.wrong = true
	var job int64
	text := fmt.Sprintf("%s is killed: %s", k.name(), why)
	if k.turn != nil {
		job = k.turn.turn.id.Job
	}
	if k.state != booting { // that it does not get ready is told anyway
		k.pool.pools.warn(k.pool, k, job, text)
		k.pool.recycled["killed"]++
		k.due = ""
	}
	k.kill(why)
	k.pool.dirty = true
}

// onGone acts on the end of a process. What is left of its group goes first: there is a child of
// its own that has no group yet. What it has said before counts.
func (ps *pools) onGone(k *kept) {
	if !isOver(k.pidfd) || ps.kept[k.started.Pid] != k {
		return
	}
	_ = unix.Kill(-k.started.Pid, unix.SIGKILL)
	ps.hear(k, true)
	ps.unwatch(k)
	k.pool.dirty = true
	if c := k.turn; k.state == busy && k.mode != "fork" {
		ps.endWith(k, c)
		return
	}
	status, reaped := k.reap()
	if !reaped { // a debugger holds it
		go func() {
			for unix.Waitid(unix.P_PID, k.started.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
			}
			ps.do(func() { ps.onGone(k) })
		}()
		return
	}
	was, c, said := k.state, k.turn, ""
	if was == booting {
		said = k.said()
	}
	switch was {
	case booting:
		k.place.leave()
		k.pool.booting--
	case asked:
		ps.unanswered(k, c, how(status))
		said = lastWords(c)
	case busy:
		ps.orphan(k, c)
		ps.warn(k.pool, k, c.turn.id.Job, fmt.Sprintf("%s ended %s; the job that it has forked runs on", k.name(), how(status)))
	case idle:
		ps.warn(k.pool, k, 0, fmt.Sprintf("%s ended between two jobs, %s", k.name(), how(status)))
		k.pool.recycled["ended"]++
	}
	ps.bury(k)
	switch {
	case was == booting && k.stale: // it says nothing of the launcher that is there now
	case was == booting:
		k.pool.fails(k, notReady, k.reasons("it ended "+how(status)+unsaid(status))+said)
	case (was != leaving || k.wrong) && k.jobs == 0:
		if k.pool.useless++; k.pool.useless == 1 {
			if k.pool.failed == 0 {
				k.pool.failed = time.Now().UnixMilli()
			}
			return // by chance: the next one is started at once
		}
		k.pool.fails(k, useless, k.reasons("it ended "+how(status)+" before it had done any job")+said)
	}
}

// reasons says why it was killed, if it was.
func (k *kept) reasons(otherwise string) string {
	if k.why != "" {
		return k.why
	}
	return otherwise
}

// said is what it wrote before it was ready, which may say why it did not get so.
func (k *kept) said() string {
	k.hearBoot()
	return wrote(k.wrote.String())
}

// lastWords is what it wrote last of a job that was lost with it, which may say why.
func lastWords(c *child) string {
	var last excerpt
	if last.add(c.done.Stderr.LastLine()); len(last.head) == 0 {
		last.add(c.done.Stdout.LastLine())
	}
	return wrote(last.String())
}

func wrote(text string) string {
	if text == "" {
		return ""
	}
	return "; it wrote: " + text
}

// how is how a process ended.
func how(status syscall.WaitStatus) string {
	if done := outcome(status); done.Signal != "" {
		return "by " + done.Signal
	}
	return fmt.Sprintf("with exit code %d", status.ExitStatus())
}

// unsaid says what is wrong with a process that has not got ready where its end does not: a launcher
// of one job, which did that and ended, mostly.
func unsaid(status syscall.WaitStatus) string {
	if status.Exited() && status.ExitStatus() == 0 {
		return " before it said ready: it is to stay, and to wait for jobs on descriptor 3"
	}
	return ""
}

// reap learns how a process ended that is gone.
func (k *kept) reap() (status syscall.WaitStatus, reaped bool) {
	family.leave(k.started.Pid)
	pid, err := 0, error(unix.EINTR)
	for err == unix.EINTR {
		pid, err = syscall.Wait4(k.started.Pid, &status, unix.WNOHANG, nil)
	}
	if pid == 0 && err == nil {
		family.join(k.started.Pid)
		return 0, false
	}
	return status, true
}

// bury forgets a process that is reaped.
func (ps *pools) bury(k *kept) {
	k.state = leaving
	delete(ps.kept, k.started.Pid)
	k.pool.processes = slices.DeleteFunc(k.pool.processes, func(other *kept) bool { return other == k })
	k.pool.dirty = true
	k.close()
}

// endWith ends a job with its process: from here on it is like any other that has ended.
func (ps *pools) endWith(k *kept, c *child) {
	k.give(c)
	if k.why != "" {
		c.turn.note = "its process was killed: " + k.why
	}
	c.pidfd, k.pidfd = k.pidfd, -1
	ps.reactor.onExit(c)
}

// give leaves the pipes of a process that is gone to its last job.
func (k *kept) give(c *child) {
	for i, of := range []*capture{&c.stdout, &c.stderr} {
		if !of.closed {
			of.shared = false
			k.output[i] = -1
		}
	}
}

// ended takes up the end of a job that came by waiting for its process.
func (ps *pools) ended(c *child) {
	k := c.turn.process
	c.turn.pool.dirty = true
	if k == nil {
		return
	}
	k.turn, c.turn.process = nil, nil
	k.pool.recycledBy(k)
	ps.bury(k)
}

// orphan goes on with a forked job whose parent is gone: it is our child now.
func (ps *pools) orphan(k *kept, c *child) {
	k.give(c)
	c.turn.process, k.turn = nil, nil
	if c.turn.pidfd < 0 && !c.turn.isGone(c) { // there was none left when it was heard of
		c.mu.Lock()
		c.turn.pidfd, _ = unix.PidfdOpen(c.started.Pid, 0)
		c.mu.Unlock()
	}
	if c.turn.pidfd < 0 || ps.reactor.epoll.add(c.turn.pidfd, aboutEnd, c.started.Pid) != nil {
		ps.reactor.onExit(c)
	}
}

// unanswered goes on with a job that a process was asked for which is gone without an answer. It
// was never started where nobody has read any of the order. Else nobody can tell; and what it may
// have forked must not begin any more.
func (ps *pools) unanswered(k *kept, c *child, how string) {
	k.turn, c.turn.process = nil, nil
	if k.takeUnread(c.turn.line) {
		for _, of := range []*capture{&c.stdout, &c.stderr} {
			of.closed = true
		}
		ps.warn(k.pool, k, c.turn.id.Job, fmt.Sprintf("%s ended %s before it had read that it was to start the job; another one is asked", k.name(), how))
		k.pool.waitAgain(c)
		return
	}
	why := fmt.Sprintf("%s was asked for the job, and ended %s before it said that it was started", k.name(), how)
	if k.why != "" { // it was us
		why = fmt.Sprintf("%s was asked for the job, and had to be killed before it said that it was started: %s", k.name(), k.why)
	}
	k.give(c)
	if k.mode != "fork" {
		c.mu.Lock()
		c.started = k.started
		c.mu.Unlock()
		ps.lose(c, why)
		return
	}
	left := ps.killOrphans(k, c)
	if len(left) == 0 {
		ps.lose(c, why)
		return
	}
	ps.warn(k.pool, k, c.turn.id.Job, fmt.Sprintf("what process %d has forked for the job, and that had not said that it was started, is killed: %v", k.started.Pid, left))
	go func() {
		for _, pid := range left {
			reapOrphan(pid)
		}
		ps.do(func() { ps.lose(c, why) })
	}()
}

// lose ends a job of which nobody can tell how it ended.
func (ps *pools) lose(c *child, why string) {
	c.exited, c.gone = true, proc.Uptime()
	c.mu.Lock()
	c.reaped = true
	c.turn.close()
	c.mu.Unlock()
	for _, of := range []*capture{&c.stdout, &c.stderr} {
		of.leave(ps.reactor.scratch)
	}
	c.done = journal.Done{Result: wire.ResultLost}
	c.describe(0)
	c.done.Reason = why
	c.turn.pool.dirty = true
	c.watcher.ended(c)
}

// recycledBy counts a process that is gone by why it was to be replaced.
func (p *pool) recycledBy(k *kept) {
	if k.due != "" {
		p.recycled[k.due]++
	}
}

// noteInfo notes what is in order.
func (ps *pools) noteInfo(p *pool, k *kept, text string) { ps.note(slog.LevelInfo, p, k, 0, text) }

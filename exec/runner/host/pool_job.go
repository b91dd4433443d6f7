package host

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// A job from the moment when a pool process is asked for it, until one of the two has ended.

// ready takes up a process that has loaded the application.
func (k *poolProcess) ready(a answer) {
	p, ps := k.pool, k.pool.pools
	k.speaker = a.writer
	if k.readAway(true); k.wrote.size > 0 {
		ps.info(p, k, fmt.Sprintf("%s wrote before it was ready: %q", k.name(), k.said()))
	}
	if k.mode == "pool" {
		k.helpers = k.childList()
	}
	k.enter(idle, 0)
	p.booting--
	p.boots++
	p.works(k)
}

// ask asks a process for a job.
func (k *poolProcess) ask(j *job) {
	t, p, ps := j.turn, k.pool, k.pool.pools
	line, err := runLine(j.id.Job, j.id.Attempt, j.what.limit.Vars(t.vars, time.Now()))
	if err != nil {
		k.pool.pools.reactor.watcher.refused(j, err.Error(), wire.Program)
		return
	}
	k.strays(fmt.Sprintf("before job %d", j.id.Job))
	for i, of := range []*capture{&j.stdout, &j.stderr} {
		of.pipe, of.closed = k.output[i], k.output[i] < 0
		of.shared, of.limit = true, j.what.maxOutput
	}
	j.forked = proc.Uptime()
	n, err := unix.Write(k.orders.ours, line)
	t.process, t.line, k.turn = k, max(n, 0), j
	k.enter(asked, ps.times.answer)
	if n < len(line) { // what it was asked for is no whole line, and never will be
		k.unfit(fmt.Sprintf("it can't be asked for a job: it has taken %d bytes of the line, %v", t.line, err))
		return
	}
	if most := p.def.MaxJobs; most > 0 && k.jobs+1 >= most-most/10 {
		k.replace("max_jobs", k.jobs+1 >= most)
	}
}

// refuses passes on that the process could not start the job.
func (k *poolProcess) refuses(a answer) {
	j := k.turn
	k.turn = nil
	k.enter(idle, 0)
	k.pool.pools.warn(k.pool, k, a.job, k.name()+" has refused the job, which was not started")
	k.pool.pools.reactor.watcher.refused(j, "the launcher refused the job: "+k.name()+" said so", wire.Short)
}

// begins notes that a job has begun: in the process, or in one that it has forked.
func (k *poolProcess) begins(a answer) {
	j, p, started, pidfd := k.turn, k.pool, k.started, -1
	if k.mode == "fork" {
		wrong := "only the process that it has forked may say that"
		if a.number == a.writer {
			started.Pid = a.number
			started.StartTime, pidfd, wrong = k.childOf(a.number)
		}
		if wrong != "" {
			k.unfit(fmt.Sprintf("it wrote %q, and %s", a.line, wrong))
			return
		}
		children.join(started.Pid)
	}
	j.born, j.over = proc.Uptime(), j.what.limit.From(j.forked)
	j.mu.Lock()
	j.started = started
	j.turn.begun, j.turn.forked, j.pidfd = true, k.mode == "fork", pidfd
	for _, signo := range j.turn.pending {
		_ = j.send(signo)
	}
	j.mu.Unlock()
	k.jobs++
	p.jobs++
	p.delay, p.useless = 0, false
	k.enter(busy, 0)
	p.pools.reactor.enter(j)
}

// ends ends the job of a process that goes on.
func (k *poolProcess) ends(a answer) {
	j, status := k.turn, syscall.WaitStatus(a.number<<8)
	if k.mode == "fork" {
		status = syscall.WaitStatus(a.number)
		if !status.Exited() && !status.Signaled() {
			k.unfit(fmt.Sprintf("it wrote %.100q to descriptor 4, which is not an exit status", a.line))
			return
		}
	}
	j.done = outcome(status)
	left := k.mode == "pool" && k.killLeft(j)
	left = k.pool.pools.reactor.finish(j) || left
	k.turn, j.turn.process = nil, nil
	for i, of := range []*capture{&j.stdout, &j.stderr} {
		if of.hungUp && k.output[i] >= 0 {
			k.hangUp(i)
		}
	}
	k.enter(idle, 0)
	if left { // it may be writing still, into the pipes by which the next job's output would come
		k.replace("left", true)
	}
	if k.mode == "pool" {
		j.mu.Lock()
		touched := j.turn.touched
		j.mu.Unlock()
		if touched && k.why == "" {
			k.replace("signalled", true)
		}
		if group, err := unix.Getpgid(k.started.Pid); err == nil && group != k.started.Pid {
			k.pool.pools.warn(k.pool, k, a.job, fmt.Sprintf("%s has changed its process group from %d to %d: it is replaced", k.name(), k.started.Pid, group))
			k.replace("group", true)
		}
	}
	k.weigh()
}

// killLeft kills what a job has left behind in the group of its process, which goes on: children that
// were not there before the first job.
func (k *poolProcess) killLeft(j *job) (left bool) {
	for _, pid := range k.childList() {
		who, there := proc.RelativesOf(pid)
		if !there || who.Ended || who.Group != k.started.Pid || slices.Contains(k.helpers, pid) {
			continue
		}
		k.pool.pools.warn(k.pool, k, j.id.Job, fmt.Sprintf("process %d is killed: job %d left it in the process group of %s; that process is replaced", pid, j.id.Job, k.name()))
		_ = unix.Kill(pid, unix.SIGKILL)
		left = true
	}
	return left
}

// weigh has a process replaced that is too large. One that has had no job yet is as large as those that
// would take its place.
func (k *poolProcess) weigh() {
	most := k.pool.def.MaxMemory
	if most <= 0 || k.spent || k.jobs == 0 {
		return
	}
	if who, there := proc.RelativesOf(k.started.Pid); there && who.Memory > most {
		k.pool.pools.info(k.pool, k, fmt.Sprintf("%s has %d bytes after %d jobs, more than max_memory: it is replaced", k.name(), who.Memory, k.jobs))
		k.replace("max_memory", true)
	}
}

// onGone acts on the end of a process, if it has ended. What is left of its group goes first: there is a child of
// its own that has no group yet. What it has said before counts.
func (ps *pools) onGone(k *poolProcess) {
	if !proc.Over(k.pidfd) || ps.processes[k.started.Pid] != k {
		return
	}
	_ = unix.Kill(-k.started.Pid, unix.SIGKILL)
	ps.hear(k)
	ps.unwatch(k)
	k.pool.dirty = true
	if k.state == busy && k.mode == "pool" {
		k.goneWithJob(k.turn, "")
		return
	}
	status, _, reaped, _ := reap(k.started.Pid)
	if !reaped { // a debugger holds it: the next tick tries again
		return
	}
	k.phase().gone(k, k.turn, how(status))
	ps.forget(k)
}

// forget forgets a process that is reaped.
func (ps *pools) forget(k *poolProcess) {
	k.state = leaving
	delete(ps.processes, k.started.Pid)
	k.pool.processes = slices.DeleteFunc(k.pool.processes, func(other *poolProcess) bool { return other == k })
	k.pool.dirty = true
	k.close()
}

// goneBooting is about one that never got ready.
func (k *poolProcess) goneBooting(_ *job, how string) {
	k.pool.booting--
	if k.why != "" && !k.wrong { // by us: it says nothing of the launcher that is there now
		return
	}
	k.readAway(true)
	if how == "with exit code 0" {
		how += " before it said ready: it must stay, and wait for jobs on descriptor 3"
	}
	k.pool.fails(k, "does not get ready", k.reasons("it ended "+how)+wrote(k.said()))
}

// goneIdle is about one that had no job.
func (k *poolProcess) goneIdle(_ *job, how string) {
	k.pool.pools.warn(k.pool, k, 0, fmt.Sprintf("%s ended between two jobs, %s", k.name(), how))
	k.pool.recycled["ended"]++
	k.isUseless(how, "")
}

// goneLeaving is about one that was told to end, or had to be killed.
func (k *poolProcess) goneLeaving(_ *job, how string) {
	if k.wrong {
		k.isUseless(how, "")
	}
}

// isUseless notes where a process has ended that has not done any job. One may do so by chance. But each
// may have taken a job along that nobody can tell the outcome of: from the second in a row on the next one
// is started after a while, and those that have had no job yet end.
func (k *poolProcess) isUseless(how, said string) {
	switch {
	case k.jobs > 0:
	case !k.pool.useless:
		k.pool.useless = true
	default:
		for _, other := range k.pool.processes {
			if other.state == idle && other.jobs == 0 {
				other.quit()
			}
		}
		k.pool.fails(k, "gets ready, but runs no job", k.reasons("it ended "+how+" before it had run any job")+said)
	}
}

// goneAsked goes on with a job that a process was asked for which is gone without an answer. It was
// never started where nobody has read any of the order. Else nobody can tell; and what it may have
// forked must not begin any more.
func (k *poolProcess) goneAsked(j *job, how string) {
	ps := k.pool.pools
	k.turn, j.turn.process = nil, nil
	if k.takeUnread(j.turn.line) {
		for _, of := range []*capture{&j.stdout, &j.stderr} {
			of.closed = true
		}
		ps.warn(k.pool, k, j.id.Job, fmt.Sprintf("%s ended %s before it read the request; another process gets the job", k.name(), how))
		if k.pool.removed {
			ps.reactor.watcher.refused(j, "the process that should start it is gone", wire.Short)
		} else {
			k.pool.waiting = slices.Insert(k.pool.waiting, 0, j)
		}
	} else {
		why := fmt.Sprintf("%s was asked for the job, and ended %s before it said started", k.name(), how)
		if k.why != "" {
			why = fmt.Sprintf("%s was asked for the job, and had to be killed before it said started: %s", k.name(), k.why)
		}
		k.give(j)
		if k.mode == "fork" {
			ps.loseWhenGone(k, j, why)
		} else {
			j.mu.Lock()
			j.started = k.started
			j.mu.Unlock()
			ps.lose(j, why)
		}
	}
	k.isUseless(how, lastWords(j))
}

// loseWhenGone does so when nothing is there any more that the process may have forked for the job.
func (ps *pools) loseWhenGone(k *poolProcess, j *job, why string) {
	left := k.killOrphans(j)
	if len(left) == 0 {
		ps.lose(j, why)
		return
	}
	ps.warn(k.pool, k, j.id.Job, fmt.Sprintf("killed the child that process %d forked for the job, as it had not said started: %v", k.started.Pid, left))
	go func() {
		for _, pid := range left {
			awaitEnd(pid)
			_, _, _, _ = reap(pid)
		}
		ps.reactor.do(func() { ps.lose(j, why) })
	}()
}

// lose ends a job of which its outcome is unknown.
func (ps *pools) lose(j *job, why string) {
	j.done = journal.Done{Result: wire.ResultLost, Reason: why}
	j.turn.pool.dirty = true
	ps.reactor.release(j)
}

// goneWithJob ends a job with its process: from here on it is like any other that has ended.
func (k *poolProcess) goneWithJob(j *job, _ string) {
	k.give(j)
	if k.why != "" {
		j.turn.note = "its process was killed: " + k.why
	}
	j.pidfd, k.pidfd = k.pidfd, -1
	k.pool.pools.reactor.onExit(j)
}

// goneWithoutChild goes on with a forked job whose parent is gone: it is our child now.
func (k *poolProcess) goneWithoutChild(j *job, how string) {
	ps := k.pool.pools
	k.give(j)
	j.turn.process, k.turn = nil, nil
	if j.pidfd < 0 && !j.hasEnded() { // there was none left when it was heard of
		j.mu.Lock()
		j.pidfd, _ = unix.PidfdOpen(j.started.Pid, 0)
		j.mu.Unlock()
	}
	if j.pidfd < 0 || ps.reactor.epoll.add(j.pidfd, aboutEnd, j.started.Pid) != nil {
		ps.reactor.onExit(j)
	}
	ps.warn(k.pool, k, j.id.Job, fmt.Sprintf("%s ended %s; the job that it has forked runs on", k.name(), how))
}

// give leaves the pipes of a process that is gone to its last job.
func (k *poolProcess) give(j *job) {
	for i, of := range []*capture{&j.stdout, &j.stderr} {
		if !of.closed {
			of.shared = false
			k.output[i] = -1
		}
	}
}

// ended takes up the end of a job that came by waiting for its process.
func (ps *pools) ended(j *job) {
	j.turn.pool.dirty = true
	if k := j.turn.process; k != nil {
		k.turn, j.turn.process = nil, nil
		if k.due != "" {
			k.pool.recycled[k.due]++
		}
		ps.forget(k)
	}
}

// reasons says why it was killed, if it was.
func (k *poolProcess) reasons(otherwise string) string {
	if k.why != "" {
		return k.why
	}
	return otherwise
}

// how is how a process ended.
func how(status syscall.WaitStatus) string {
	if done := outcome(status); done.Signal != "" {
		return "by " + done.Signal
	}
	return fmt.Sprintf("with exit code %d", status.ExitStatus())
}

// lastWords is what a process wrote last of a job that was lost with it, which may say why.
func lastWords(j *job) string {
	last := newExcerpt()
	if last.take(j.done.Stderr.LastLine()); last.size == 0 {
		last.take(j.done.Stdout.LastLine())
	}
	return wrote(last.excerpt())
}

func wrote(text string) string {
	if text == "" {
		return ""
	}
	return "; it wrote: " + text
}

// turn is what a job has beyond a process of its own: it is one that a pool process runs, or
// has forked. The reactor's, but for what the job's mu guards.
type turn struct {
	vars []string

	pool    *pool
	process *poolProcess // nil while it waits for one, and when that is gone
	line    int          // bytes of the line that asks for it
	note    string

	// The job's mu guards these.
	begun   bool
	forked  bool          // it is a child of its pool process
	pending []unix.Signal // came before it began
	touched bool          // it had a signal
}

// send sends a signal to the job's group, or keeps it until the job has begun. Callers must hold
// j.mu.
func (t *turn) send(j *job, signo unix.Signal) error {
	if !t.begun {
		t.pending = append(t.pending, signo)
		return nil
	}
	t.touched = t.touched || signo != 0
	if t.forked { // its parent may have reaped it
		return proc.SignalGroup(j.pidfd, j.started.Pid, j.started.StartTime, signo)
	}
	return proc.Signal(j.started.Pid, signo)
}

// finish ends a job whose process goes on, or was reaped by its parent. It has flushed before the end
// was told. It tells whether a forked one has left something.
func (r *reactor) finish(j *job) (left bool) {
	if j.turn.forked {
		j.mu.Lock()
		left = j.send(unix.SIGKILL) == nil // what it left in its group
		j.mu.Unlock()
		children.leave(j.started.Pid)
	}
	r.release(j)
	return left
}

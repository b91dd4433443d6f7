package host

import (
	"bytes"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// ask asks a process for a job.
func (k *kept) ask(c *child) {
	t, p, ps := c.turn, k.pool, k.pool.pools
	line, err := runLine(t.id.Job, t.id.Attempt, t.limit.Vars(t.vars, time.Now()))
	if err != nil {
		t.watcher.refused(err.Error(), wire.Program)
		return
	}
	if !isQuiet(k.output) {
		strays := k.strays(fmt.Sprintf("before job %d", t.id.Job))
		k.lookForEnds()
		if strays && k.suspects() {
			p.waiting = append([]*child{c}, p.waiting...)
			return
		}
	}
	if k.closed != "" {
		p.waiting = append([]*child{c}, p.waiting...)
		return
	}
	for i, of := range []*capture{&c.stdout, &c.stderr} {
		of.pipe, of.closed = k.output[i], k.output[i] < 0
		of.shared, of.limit, of.rest = true, t.maxOutput, &ps.spawner.rest
	}
	c.forked, c.killer, c.kills = proc.Uptime(), &ps.spawner.killer, ps.spawner.killer.known.Load()
	if n, err := unix.Write(k.orders.writer, line); n != len(line) { // all of it, or nothing
		p.waitAgain(c)
		k.unfit(fmt.Sprintf("it can't be asked for a job: %v", err))
		return
	}
	t.process, t.line, k.turn = k, len(line), c
	k.enterAt(c.forked, asked, ps.times.answer)
	if most := p.def.MaxJobs; most > 0 && k.jobs+1 >= most-most/10 {
		if k.due == "" {
			k.due = "max_jobs"
		}
		k.spent = k.spent || k.jobs+1 >= most
	}
}

// hear acts on what a process says. With drain it reads all that there is; without, it stops at the
// first read that was not full, and the epoll tells when there is more.
func (ps *pools) hear(k *kept, drain bool) {
	var b [mostLine + 1]byte
	for {
		if k.why != "" { // what it left behind may write for ever
			_ = unix.EpollCtl(ps.reactor.epoll.fd, unix.EPOLL_CTL_DEL, k.answers, nil) // it may not be there
			return
		}
		n, err := unix.Read(k.answers, b[:])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 { // its end says nothing of a job: its children have the other one, too
			if n == 0 && err == nil {
				_ = unix.EpollCtl(ps.reactor.epoll.fd, unix.EPOLL_CTL_DEL, k.answers, nil)
				k.hasClosed("descriptor 4")
			}
			return
		}
		k.take(b[:n])
		k.pool.dirty = true
		if n < len(b) && !drain {
			return
		}
	}
}

// take acts on bytes that a process has written.
func (k *kept) take(more []byte) {
	for len(more) > 0 {
		line, rest, whole := bytes.Cut(more, []byte("\n"))
		if k.why != "" {
			return // it says nothing of use any more
		}
		if len(k.line)+len(line) > mostLine {
			k.garbage(append(k.line, line...))
			return
		}
		if !whole {
			k.line = append(k.line, line...)
			return
		}
		if len(k.line) > 0 {
			line = append(k.line, line...)
			k.line = k.line[:0]
		}
		k.answer(line)
		more = rest
	}
}

// garbage ends a process that says what it must not.
func (k *kept) garbage(line []byte) {
	const most = 100
	cut := ""
	if len(line) > most {
		line, cut = line[:most], "…"
	}
	k.unfit(fmt.Sprintf("it wrote %q%s to descriptor 4, %s%s", string(line), cut, k.expected(), k.likeAnother(line)))
}

// expected is what a process may say.
func (k *kept) expected() string {
	var id int64
	if k.turn != nil {
		id = k.turn.turn.id.Job
	}
	switch {
	case k.state == booting:
		return "where ready is expected"
	case k.state == asked && k.mode == "fork":
		return fmt.Sprintf("where started %d PID or refused %d is expected", id, id)
	case k.state == asked:
		return fmt.Sprintf("where started %d or refused %d is expected", id, id)
	case k.state == busy && k.mode == "fork":
		return fmt.Sprintf("where ended %d STATUS is expected", id)
	case k.state == busy && k.mode == "pool":
		return fmt.Sprintf("where exit %d CODE is expected", id)
	}
	return "where nothing is expected"
}

// likeAnother names the mode for which a launcher is that answers so, if it is for another one.
func (k *kept) likeAnother(line []byte) string {
	a, ok := parseAnswer(line)
	mode := ""
	switch {
	case !ok || k.turn == nil:
	case k.mode != "fork" && (a.word == "ended" || a.word == "started" && a.has):
		mode = "fork"
	case k.mode != "pool" && a.word == "exit":
		mode = "pool"
	case k.mode == "fork" && a.word == "started" && !a.has:
		mode = "pool"
	}
	if mode == "" {
		return ""
	}
	return fmt.Sprintf(": so answers a launcher for %s, and launcher_mode is %s", mode, k.mode)
}

// answer acts on a line.
func (k *kept) answer(line []byte) {
	a, ok := parseAnswer(line)
	c := k.turn
	if !ok || c == nil && a.word != "ready" || c != nil && a.job != c.turn.id.Job {
		k.garbage(line)
		return
	}
	switch {
	case a.word == "ready" && k.state == booting:
		k.ready()
	case a.word == "started" && k.state == asked && a.has == (k.mode == "fork"):
		if k.mode != "fork" {
			k.begins(k.started, -1)
		} else if started, pidfd, wrong := k.childOf(a.number); wrong == "" {
			k.begins(started, pidfd)
		} else {
			k.unfit(fmt.Sprintf("it wrote %q, and %s", string(line), wrong))
		}
	case a.word == "refused" && k.state == asked:
		k.turn = nil
		k.enter(idle, 0)
		ps := k.pool.pools
		ps.warn(k.pool, k, a.job, k.name()+" has refused the job, which was not started")
		c.turn.watcher.refused("the launcher refused the job: "+k.name()+" said so", wire.Short)
	case a.word == "exit" && k.state == busy && k.mode == "pool":
		k.ends(outcome(syscall.WaitStatus(a.number << 8)))
	case a.word == "ended" && k.state == busy && k.mode == "fork" && over(syscall.WaitStatus(a.number)):
		k.ends(outcome(syscall.WaitStatus(a.number)))
	default:
		k.garbage(line)
	}
}

// over tells whether a status is that of a process that has ended.
func over(status syscall.WaitStatus) bool { return status.Exited() || status.Signaled() }

// ready takes up a process that has loaded the application.
func (k *kept) ready() {
	p, ps := k.pool, k.pool.pools
	for _, fd := range k.output {
		if fd >= 0 {
			_ = unix.EpollCtl(ps.reactor.epoll.fd, unix.EPOLL_CTL_DEL, fd, nil) // it may have ended
		}
	}
	k.hearBoot()
	if len(k.wrote.head) > 0 {
		ps.noteInfo(p, k, fmt.Sprintf("%s wrote before it was ready: %q", k.name(), k.wrote.String()))
		k.wrote = excerpt{}
	}
	if k.mode == "pool" {
		k.helpers = make(map[int]bool)
		for _, m := range proc.Members(map[int]bool{k.started.Pid: true}) {
			k.helpers[m.Pid] = true
		}
	}
	k.enter(idle, 0)
	k.weighFresh()
	k.place.leave()
	p.booting--
	p.boots++
	if p.useless == 0 {
		p.works(k)
	} else { // it has to start a job first: until then it is of no use since when the others were
		p.unready = ""
	}
}

// begins notes that a job has begun: in the process, or in one that it has forked.
func (k *kept) begins(started journal.Started, pidfd int) {
	c, p := k.turn, k.pool
	c.born, c.over = proc.Uptime(), c.turn.limit.From(c.forked)
	c.mu.Lock()
	c.started = started
	c.turn.begun, c.turn.forked, c.turn.pidfd = true, k.mode == "fork", pidfd
	for _, signo := range c.turn.pending {
		_ = c.send(signo)
	}
	c.mu.Unlock()
	if k.mode == "fork" {
		family.join(started.Pid)
	}
	k.jobs++
	p.jobs++
	if p.useless > 1 {
		p.works(k)
	} else if p.failure == "" {
		p.failed = 0
	}
	p.delay, p.useless = 0, 0
	k.enterAt(c.born, busy, 0)
	p.pools.reactor.begin(c)
}

// childOf is the process that a job was forked into. It must be a descendant that leads a group of
// its own. One that is gone by now had a parent that has reaped it, which is about to say so.
func (k *kept) childOf(pid int) (started journal.Started, pidfd int, wrong string) {
	started = journal.Started{Pid: pid, BootID: k.started.BootID}
	if pid <= 1 || pid == k.started.Pid || k.pool.pools.kept[pid] != nil {
		return started, -1, "that is no process that it has forked"
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	who, there := proc.RelativesOf(pid)
	if err != nil {
		pidfd = -1 // it is gone, or we have no descriptor left
	}
	if !there {
		if pidfd >= 0 {
			unix.Close(pidfd)
		}
		started.StartTime = uint64(proc.Uptime() / proc.Tick)
		return started, -1, ""
	}
	started.StartTime = who.StartTime
	switch {
	case !k.begat(who.Parent):
		wrong = "that is no process that it has forked"
	case who.Group != pid:
		wrong = "that is not the leader of a group of its own: it must become that before it says started"
	default:
		return started, pidfd, ""
	}
	if pidfd >= 0 {
		unix.Close(pidfd)
	}
	return started, -1, wrong
}

// begat tells whether a process is the kept one, or a descendant; or ours, where that is gone.
func (k *kept) begat(parent int) bool {
	for range 8 {
		if parent == k.started.Pid || k.state == asked && parent == unix.Getpid() && isOver(k.pidfd) {
			return true
		}
		who, there := proc.RelativesOf(parent)
		if !there {
			return false
		}
		parent = who.Parent
	}
	return false
}

// ends ends the job of a process that goes on.
func (k *kept) ends(done journal.Done) {
	c := k.turn
	c.done = done
	k.tidy(c)
	k.pool.pools.reactor.finish(c)
	k.turn, c.turn.process, k.ended = nil, nil, 0
	k.closeHungUp(c)
	k.enterAt(c.gone, idle, 0)
	if k.last = c.turn.id.Job; c.turn.left {
		group := c.started.Pid
		k.awaitLeft(func() bool { return proc.IsAlive(group) })
	}
	k.afterJob(c)
	if k.held {
		k.pool.pools.look(true)
	}
}

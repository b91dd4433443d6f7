package host

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// hearBoot reads what a process writes before it is ready.
func (k *kept) hearBoot() {
	k.readAway(&k.wrote, true)
}

// strays reads what was written while there was no job, and tells.
func (k *kept) strays(when string) (any bool) {
	var said excerpt
	k.readAway(&said, false)
	if any = len(said.head) > 0; any {
		k.pool.pools.warn(k.pool, k, 0, fmt.Sprintf("%s, or what it left behind, wrote %s: %q", k.name(), when, said.String()))
	}
	return any
}

// readAway reads what is in the pipes, and adds it to said. At the end of a pipe it is given up.
func (k *kept) readAway(said *excerpt, toEnd bool) {
	scratch := k.pool.pools.reactor.scratch
	for i, fd := range k.output {
		if fd < 0 {
			continue
		}
		left := pending(fd)
		if left == 0 && !toEnd {
			continue
		}
		for budget := turnBytes; budget > 0; {
			n, err := unix.Read(fd, scratch)
			if err == unix.EINTR {
				continue
			}
			if n == 0 && err == nil {
				k.hangUp(i)
			}
			if n <= 0 {
				break
			}
			budget -= n
			said.add(scratch[:n])
			if left -= n; left <= 0 && !toEnd {
				break
			}
		}
	}
}

// hangUp gives up a pipe that nobody can write into any more.
func (k *kept) hangUp(i int) {
	_ = unix.EpollCtl(k.pool.pools.reactor.epoll.fd, unix.EPOLL_CTL_DEL, k.output[i], nil)
	unix.Close(k.output[i])
	k.output[i] = -1
}

// closeHungUp does so after a job.
func (k *kept) closeHungUp(c *child) {
	for i, of := range []*capture{&c.stdout, &c.stderr} {
		if of.hungUp && k.output[i] >= 0 {
			k.hangUp(i)
			k.hasClosed(streams[i])
		}
	}
}

// tidy ends what a job has left behind in the group of its process, which goes on.
func (k *kept) tidy(c *child) {
	if k.mode != "pool" {
		return
	}
	for _, pid := range k.children() {
		if !k.helpers[pid] {
			k.killLeft(pid, c.turn.id.Job, "")
		}
	}
}

// afterJob looks whether a process may have another job.
func (k *kept) afterJob(c *child) {
	if k.mode != "pool" {
		k.weigh()
		return
	}
	c.mu.Lock()
	touched := c.turn.touched
	c.mu.Unlock()
	if touched && k.why == "" {
		k.due, k.spent = "signalled", true
	}
	if group, err := unix.Getpgid(k.started.Pid); err == nil && group != k.started.Pid {
		k.pool.pools.warn(k.pool, k, c.turn.id.Job, fmt.Sprintf("%s has changed its process group from %d to %d: it is replaced", k.name(), k.started.Pid, group))
		k.due, k.spent = "group", true
	}
	k.weigh()
}

// weigh looks how large a process is. One that has had no job yet is as large as those that would
// take its place.
func (k *kept) weigh() {
	most := k.pool.def.MaxMemory
	if most <= 0 || k.spent || k.jobs == 0 {
		return
	}
	who, there := proc.RelativesOf(k.started.Pid)
	if !there {
		return
	}
	if who.Memory > most || k.state == idle { // in a job it may grow still
		k.fits(who.Memory)
	}
	if who.Memory > most {
		k.pool.pools.noteInfo(k.pool, k, fmt.Sprintf("%s has %d bytes, more than max_memory: it is replaced", k.name(), who.Memory))
		k.due, k.spent = "max_memory", true
		k.pool.dirty = true
	}
}

// tick looks after what no event tells of.
func (ps *pools) tick(now int64) {
	for _, k := range ps.kept {
		def := &k.pool.def
		if k.state == idle {
			k.strays("between two jobs")
			k.lookForEnds()
			if def.IdleTimeout > 0 && now-k.since > int64(def.IdleTimeout) && k.due == "" {
				k.due, k.spent = "idle_timeout", true
				k.pool.wanted = k.pool.booting + k.pool.count((*kept).stays)
			}
		}
		k.listen(now)
		if k.forgets(now) {
			k.unfit(fmt.Sprintf("the process of its job has ended, and it has not said so within %s", ps.times.answer))
		}
		if (k.state == idle || k.state == busy) && k.due == "" {
			if def.MaxAge > 0 && now-k.born > int64(def.MaxAge) {
				k.due = "max_age"
			}
			k.weigh()
		}
	}
	for _, p := range ps.byTarget {
		p.check()
	}
	ps.sweep()
	ps.seekLeft(now)
}

// forgets tells whether a job's end is known for a while, and its parent says nothing of it.
func (k *kept) forgets(now int64) bool {
	if k.state != busy || k.mode != "fork" || k.why != "" || !k.turn.turn.isGone(k.turn) {
		return false
	}
	if k.ended == 0 {
		k.ended = now
	}
	return now-k.ended > int64(k.pool.pools.times.answer)
}

// killLeft kills a process that a job has left behind in the group of its own, if it has. It was job,
// or, where so it is said, one before.
func (k *kept) killLeft(pid int, job int64, orBefore string) {
	who, there := proc.RelativesOf(pid)
	if !there || who.Ended || who.Group != k.started.Pid || k.helpers[pid] || pid == k.started.Pid {
		return
	}
	k.pool.pools.warn(k.pool, k, job, fmt.Sprintf("process %d is killed: job %d%s has left it behind in the group of %s", pid, job, orBefore, k.name()))
	if unix.Kill(pid, unix.SIGKILL) == nil {
		k.awaitLeft(func() bool {
			now, there := proc.RelativesOf(pid)
			return there && !now.Ended && now.StartTime == who.StartTime
		})
	}
}

// check looks whether the launcher's files are others by now, on a goroutine: a file system may
// make it wait.
func (p *pool) check() {
	if !p.def.Watch || p.checks {
		return
	}
	p.checks = true
	def := p.def
	go func() {
		var stamp string
		p.pools.looks.do(func() { stamp = stampOf(&def) })
		p.pools.do(func() {
			p.checks = false
			for _, k := range p.processes {
				if k.stamp != stamp && stamp != "" && k.due == "" && p.def.Watch {
					k.due = "watch"
					p.soon()
				}
			}
		})
	}()
}

// stampOf tells a launcher's files from others, and from themselves when they were changed: those
// that its words name. It is empty where one of them is not there at the moment.
func stampOf(def *wire.Pool) string {
	var b []byte
	for i, word := range def.Argv {
		path := word
		if !filepath.IsAbs(path) {
			path = filepath.Join(def.Dir, path)
		}
		var file unix.Stat_t
		if err := unix.Stat(path, &file); err != nil {
			if i == 0 {
				return ""
			}
			continue
		}
		if file.Mode&unix.S_IFMT == unix.S_IFREG {
			b = fmt.Appendf(b, "%d: %d %d %d %d\n", i, file.Dev, file.Ino, file.Size, file.Mtim.Nano())
		}
	}
	return string(b)
}

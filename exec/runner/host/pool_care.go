package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// mostSaid is how much is told of what a process writes while it has no job.
const mostSaid = 300

// hearBoot reads what a process writes before it is ready.
func (k *kept) hearBoot() {
	k.wrote = k.readAway(k.wrote, true)
}

// strays reads what was written while there was no job, and tells.
func (k *kept) strays(when string) {
	if said := k.readAway(nil, false); len(said) > 0 {
		k.pool.pools.warn(k.pool, k, 0, fmt.Sprintf("%s, or what it left behind, wrote %s: %q", k.name(), when, said))
	}
}

// readAway reads what is in the pipes, and adds the beginning to said. At the end of a pipe it is
// given up.
func (k *kept) readAway(said []byte, toEnd bool) []byte {
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
			more := scratch[:min(n, max(0, mostSaid-len(said)))]
			said = append(said, more...)
			if left -= n; left <= 0 && !toEnd {
				break
			}
		}
	}
	return bytes.TrimRight(said, "\n")
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
		}
	}
}

// tidy ends what a job has left behind in the group of its process, which goes on.
func (k *kept) tidy(c *child) {
	if k.mode != "pool" {
		return
	}
	for _, pid := range childrenOf(k.started.Pid, k.started.Pid) {
		if k.children[pid] {
			continue
		}
		if who, there := proc.RelativesOf(pid); there && who.Group == k.started.Pid && !who.Ended {
			k.pool.pools.warn(k.pool, k, c.turn.id.Job, fmt.Sprintf("process %d is killed: job %d has left it behind in %s", pid, c.turn.id.Job, k.name()))
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// childrenOf lists the children that a thread of a process has.
func childrenOf(pid, thread int) (children []int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, thread))
	if err != nil {
		return nil
	}
	for _, field := range bytes.Fields(text) {
		if child, err := strconv.Atoi(string(field)); err == nil {
			children = append(children, child)
		}
	}
	return children
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

// weigh looks how large a process is.
func (k *kept) weigh() {
	most := k.pool.def.MaxMemory
	if most <= 0 || k.spent {
		return
	}
	if who, there := proc.RelativesOf(k.started.Pid); there && who.Memory > most {
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
			if def.IdleTimeout > 0 && now-k.since > int64(def.IdleTimeout) && k.due == "" {
				k.due, k.spent = "idle_timeout", true
				k.pool.wanted = max(0, k.pool.count((*kept).serves)-1)
			}
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
		stamp := stampOf(&def)
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

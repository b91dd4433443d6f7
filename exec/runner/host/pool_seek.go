package host

import (
	"time"

	"jobd/exec/runner/proc"
)

// What a job leaves behind in the group of a pool's process is mostly a child of it, which is found
// after the job: see tidy. A child of a child whose parent is gone, or one that another thread has
// started, is found only by a look at all processes of the host. That takes milliseconds, so it is
// for all kept processes together that are idle then. One that always has a job is kept from its next
// one now and then, until it was looked at.

// sparing is how many times as long as looks may take they are apart, if each process needs its own.
const sparing = 20

// seeking is how it is looked for what jobs have left behind.
type seeking struct {
	under bool          // a look is under way
	took  time.Duration // the last one
}

// isSeldom tells whether a process had jobs for so many ticks without having been looked at, and for
// long enough that looks are no burden.
func (k *kept) isSeldom(now int64, ticks time.Duration) bool {
	ps := k.pool.pools
	return now-k.soughtAt > int64(max(ticks*ps.times.tick, sparing*ps.seeking.took*time.Duration(len(ps.kept))))
}

// suspects keeps a process from its next job where it, or what it has left behind, writes between
// two.
func (k *kept) suspects() bool {
	if k.mode == "pool" && k.jobs > 0 && k.isSeldom(proc.Uptime(), 1) {
		k.held = true
		k.pool.pools.look(true)
	}
	return k.held
}

// seekLeft looks after all that are idle, and has those that never are wait for a look after their
// jobs.
func (ps *pools) seekLeft(now int64) {
	for _, k := range ps.kept {
		if k.mode == "pool" && k.state == busy && k.isSeldom(now, 3) {
			k.held = true
		}
	}
	ps.look(false)
}

// look looks for what jobs have left behind in the groups of processes that are idle, on a goroutine,
// one at a time; or does so only where one of them is held.
func (ps *pools) look(ifHeld bool) {
	if ps.seeking.under {
		return
	}
	groups, looked := map[int]bool{}, map[*kept]int{}
	for pid, k := range ps.kept {
		if k.mode == "pool" && k.state == idle && (k.held || k.jobs > k.sought) {
			groups[pid], looked[k] = true, k.jobs
			ifHeld = ifHeld && !k.held
		}
	}
	if len(groups) == 0 || ifHeld {
		return
	}
	ps.seeking.under = true
	go func() {
		begun := time.Now()
		members := proc.Members(groups)
		took := time.Since(begun)
		ps.do(func() {
			ps.seeking = seeking{took: took}
			ps.found(looked, members)
			ps.look(true)
		})
	}()
}

// found acts on what was found of processes that had so many jobs then. One that has had another job
// since may have children that it needs.
func (ps *pools) found(looked map[*kept]int, members []proc.Member) {
	now := proc.Uptime()
	for k, jobs := range looked {
		if k.held = false; k.state != idle || k.jobs != jobs {
			continue
		}
		before := ""
		if jobs > k.sought+1 {
			before = ", or one before it,"
		}
		k.sought, k.soughtAt = jobs, now
		k.pool.dirty = true
		for _, m := range members {
			if m.Group == k.started.Pid {
				k.killLeft(m.Pid, k.last, before)
			}
		}
	}
}

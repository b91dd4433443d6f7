package host

import (
	"fmt"
	"time"

	"jobd/exec/runner/proc"
)

// tight is whether max_memory of a pool is too small for its processes: less than what they take as
// soon as they are ready, or after the first of their jobs. Each is replaced after one job then, for
// ever, which is dearer than a process for each job. Nothing else follows from it but that people are
// told.
type tight struct {
	why    string // "": it is not
	since  int64  // unix milliseconds
	large  int    // processes in a row that were too large after their first job
	roomy  bool   // a process was not too large after a job
	logged bool   // people were told, for this max_memory
}

// weighFresh looks how large a process is that has just got ready.
func (k *kept) weighFresh() {
	p := k.pool
	if p.def.MaxMemory <= 0 || p.tight.roomy {
		return
	}
	if who, there := proc.RelativesOf(k.started.Pid); there && who.Memory > p.def.MaxMemory {
		p.tighten(k, fmt.Sprintf("%s has %s as soon as it is ready", k.name(), kibibytes(who.Memory)))
	}
}

// fits notes that a process is not too large after a job, or that it is.
func (k *kept) fits(memory int64) {
	t := &k.pool.tight
	switch {
	case memory <= k.pool.def.MaxMemory:
		*t = tight{roomy: true, logged: t.logged}
	case k.jobs > 1:
		t.large = 0 // that is what max_memory is for
	default: // one may be too large because of what its job was
		if t.large++; t.large > 1 {
			k.pool.tighten(k, fmt.Sprintf("%s has %s after its first job, and so had the one before", k.name(), kibibytes(memory)))
		}
	}
}

// tighten notes that max_memory is too small, and tells that once.
func (p *pool) tighten(k *kept, why string) {
	t := &p.tight
	if t.why != "" {
		return
	}
	t.why = fmt.Sprintf("%s, and may have %s", why, kibibytes(p.def.MaxMemory))
	t.since, p.dirty = time.Now().UnixMilli(), true
	if !t.logged {
		t.logged = true
		p.pools.warn(p, k, 0, fmt.Sprintf("max_memory of target %s is too small, so that each process is replaced after its first job: %s", p.def.Target, t.why))
	}
}

// kibibytes is a size that is whole pages, mostly.
func kibibytes(bytes int64) string { return fmt.Sprintf("%d KiB", bytes>>10) }

package runner

import (
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/journal"
)

// Usage implements jobexec.Watcher. A process that has the number of one that is gone is another.
func (r *Remote) Usage(of []journal.Started) []*jobexec.Usage {
	used := make([]*jobexec.Usage, len(of))
	groups := r.meter.Groups()
	for i, started := range of {
		group, seen := groups[started.Pid]
		if seen && started.Pid > 0 && started.BootID == r.connector.bootID && group.StartTime == started.StartTime {
			ran := time.Duration(max(0, proc.Uptime()-int64(started.StartTime)*proc.Tick))
			used[i] = &jobexec.Usage{Ran: ran, CPU: group.CPU, Memory: group.Memory, Processes: group.Processes}
		}
	}
	return used
}

// Adopted tells that the process goes on without its runner.
func (s *stray) Adopted() bool { return true }

// Adopted tells whether the process goes on without its runner.
func (p *process) Adopted() bool { return p.orphaned.Load() }

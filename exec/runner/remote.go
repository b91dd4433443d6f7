package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// Remote starts jobs through a runner process, which outlives the worker. Its methods may be called
// by many goroutines.
type Remote struct {
	config Config
	bootID string
	ctx    context.Context // ends when Close was called
	leave  context.CancelFunc

	meter      proc.Meter
	connecting sync.Mutex // held while a link is made; taken before any other lock
	telling    sync.Mutex // held while the worker is told how pools stand, so that it hears of changes in their order

	recalled map[wire.ID]*process // the jobs that the runner had when the worker started

	mu        sync.Mutex // never held for long
	link      *link      // the newest; nil: there was none yet
	links     uint64     // so many were made
	missed    Standing   // why none can be made, and since when; zero where it could
	wanted    []*pool    // nil: the worker has not said yet which it wants
	displaced string     // the runner that the journal names, where Open found another process in its place
}

// Open connects to the runner that a former worker left, or starts one.
func Open(c Config) (*Remote, error) {
	bootID, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	if err := proc.KeepDescriptors(); err != nil {
		return nil, err
	}
	r := &Remote{config: c, bootID: bootID}
	r.ctx, r.leave = context.WithCancel(context.Background())
	if _, err := r.get(); err != nil {
		return nil, err
	}
	return r, nil
}

// Start implements jobexec.Runner.
func (r *Remote) Start(spec jobexec.Spec) (jobexec.Process, error) {
	l, err := r.get()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w: %w", spec.Argv[0], jobexec.ErrRunnerChanged, err)
	}
	if l.instance != spec.Runner {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], jobexec.ErrRunnerChanged)
	}
	return l.start(&spec)
}

// Instance implements jobexec.Keeper. It starts a runner where there is none.
func (r *Remote) Instance() (string, error) {
	l, err := r.get()
	if err != nil {
		return "", err
	}
	return l.instance, nil
}

// Displaced names the runner of the journal in whose place another process was found at the start; "":
// none was.
func (r *Remote) Displaced() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.displaced
}

// Ended implements jobexec.Keeper.
func (r *Remote) Ended(instance string) bool {
	listed, err := os.ReadFile(filepath.Join(r.config.Dir, wire.EndedFile))
	return err == nil && slices.Contains(strings.Fields(string(listed)), instance)
}

// claim is a start, and for how long it may run.
type claim struct {
	id    wire.ID
	limit wire.Limit
}

func claimOf(spec *jobexec.Spec) claim {
	return claim{
		wire.ID{Job: spec.Job, Token: spec.Token, Attempt: spec.Attempt},
		wire.Limit{Timeout: max(0, spec.Timeout), Kill: max(0, spec.KillAfter)},
	}
}

// Recall implements jobexec.Keeper.
func (r *Remote) Recall(underWay []jobexec.Spec) (recalled []jobexec.Recalled) {
	for i := range underWay {
		of := claimOf(&underWay[i])
		if p := r.recalled[of.id]; p != nil && underWay[i].Mode.Shares() {
			p.since.Store(beganAt(&underWay[i], journal.Started{}))
		}
	}
	for _, p := range r.recalled {
		id := p.id
		recalled = append(recalled, jobexec.Recalled{Job: id.Job, Token: id.Token, Attempt: id.Attempt, Process: p})
	}
	return recalled
}

// Usage implements jobexec.Watcher. It compares start times, too, because another process may have the
// number of one that is gone.
func (r *Remote) Usage(of []journal.Started) []*jobexec.Usage {
	used := make([]*jobexec.Usage, len(of))
	groups := r.meter.Groups()
	for i, started := range of {
		group, seen := groups[started.Pid]
		if seen && started.Pid > 0 && started.BootID == r.bootID && group.StartTime == started.StartTime {
			ran := time.Duration(max(0, proc.Uptime()-int64(started.StartTime)*proc.Tick))
			used[i] = &jobexec.Usage{Ran: ran, CPU: group.CPU, Memory: group.Memory, Processes: group.Processes}
		}
	}
	return used
}

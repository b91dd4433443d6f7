package runner

import (
	"context"
	"errors"
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

// Forget implements jobexec.Keeper.
func (r *Remote) Forget(job int64, token string, attempt int) {
	r.connecting.Lock() // a runner that is being connected has it, too
	defer r.connecting.Unlock()
	r.newest().forget(wire.ID{Job: job, Token: token, Attempt: attempt})
}

// Adopt implements jobexec.Runner.
func (r *Remote) Adopt(of jobexec.Spec, started journal.Started) (jobexec.Process, bool) {
	p := newProcess(claimOf(&of))
	p.since.Store(beganAt(&of, started))
	p.begin(started, nil)
	if !p.outlive(r) {
		return nil, false
	}
	return p, true
}

// beganAt is the uptime at which a start began that a former worker has asked for. Where its process
// was there before, that was when it was announced, as far as the clock was not set since.
func beganAt(of *jobexec.Spec, process journal.Started) int64 {
	if !of.Mode.Shares() || of.Since.IsZero() {
		return began(process)
	}
	now := proc.Uptime()
	return min(max(now-int64(time.Since(of.Since)), began(process)), now)
}

// Written implements jobexec.Watcher. What a job has written whose runner is gone went with that.
func (r *Remote) Written(ctx context.Context, g jobexec.Glance) (w jobexec.Written, err error) {
	id := wire.ID{Job: g.Job, Token: g.Token, Attempt: g.Attempt}
	if l := r.newest(); l.has(id) {
		m, err := l.ask(ctx, wire.Message{Kind: wire.Peek, ID: id, Peek: &wire.Glance{From: g.From, Most: g.Most}})
		if err == nil {
			return jobexec.Written{jobexec.Part(m.Peek.Parts[0]), jobexec.Part(m.Peek.Parts[1])}, nil
		}
		if !errors.Is(err, errLost) {
			return w, err
		}
	}
	for i, from := range g.From {
		w[i].At = max(from, 0)
	}
	return w, nil
}

// has tells whether the runner has a job that is not known to have ended.
func (l *link) has(id wire.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.processes[id] != nil
}

// Standing is how the worker stands with its runner.
type Standing struct {
	PID   int       // the runner's; 0: it is not known, or there is none
	Since time.Time // when the connection was made, or lost, or since when nobody answers on it
	Err   error     // why there is none, or that nobody answers; nil: there is one
	Links uint64    // connections that were made so far
}

// misses notes why there is no runner. Callers must hold r.mu.
func (r *Remote) misses(err error) error {
	if r.missed.Err == nil {
		r.missed.Since = time.Now()
	}
	r.missed.Err = err
	return err
}

// answerPatience is how long a runner may take to answer a start; it does so within milliseconds.
const answerPatience = 10 * time.Second

// Standing tells whether the runner is connected, and answers. It does not wait for it.
func (r *Remote) Standing() Standing { return r.standing(time.Now()) }

func (r *Remote) standing(now time.Time) Standing {
	r.mu.Lock()
	l, is := r.link, r.missed
	is.Links = r.links
	r.mu.Unlock()
	switch {
	case is.Err != nil || l == nil:
	case !l.alive():
		is.Since, is.Err = l.end.Since, l.end.Err
	default:
		is.PID, is.Since = l.pid, l.since
		if since := l.unanswered(); !since.IsZero() && now.Sub(since) >= answerPatience {
			is.Since, is.Err = since, errStandsStill
		}
	}
	return is
}

// errStandsStill is about a runner that is connected and does nothing.
var errStandsStill = errors.New("the runner does not answer a request to start a job: it is stopped, or hangs")

// unanswered is when the oldest of the starts was asked for that the runner has not answered; zero:
// it has answered all.
func (l *link) unanswered() (since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.processes {
		if p.asked.IsZero() || p.exited || jobexec.IsClosed(p.begun) {
			continue
		}
		if since.IsZero() || p.asked.Before(since) {
			since = p.asked
		}
	}
	return since
}

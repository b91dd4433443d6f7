package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"jobd/journal"
)

// Config says what a worker is made of.
type Config struct {
	Name            string
	Version         string
	BootID          string
	Targets         map[string]int // concurrency by target
	Launcher        Launcher
	MaxOutput       int // bytes kept of stdout and of stderr, each
	FetchLimit      int // most rows in one claim; 0: no limit
	Prefetch        int // jobs claimed beyond the free slots; negative: one a slot
	PollInterval    time.Duration
	LaunchOffline   bool          // start claimed jobs while the database is away
	Requeue         bool          // start jobs of unknown outcome again, instead of failing them
	MaxAttempts     int           // how often a job is started at most where Requeue is set
	ShutdownTimeout time.Duration // 0: no limit
	Handover        bool          // on stop leave what runs to the runner, for the next start

	Recorder  Recorder
	Table     Claimer
	Mirror    Mirror
	Runner    Runner
	Keeper    Keeper
	Disk      Disk
	Retry     func(what string) Retry
	Logger    *slog.Logger
	OnTargets func() // called when the set of targets has changed; must not block
}

// Worker takes jobs from claim to done. All methods are safe for concurrent use;
// Run must be called once.
type Worker struct {
	Config
	nudge    chan struct{} // something may be claimed
	stop     chan struct{} // closed when the worker starts nothing any more
	hurry    chan struct{} // closed when stopping must not take time
	failed   chan struct{} // closed when the journal takes no more
	turns    chan struct{} // something is in the inbox
	turned   chan struct{} // closed when no turn is taken any more
	changing sync.Mutex    // held while targets are changed, across journal and memory

	// The turn loop's.
	busy        time.Time     // when more than one job ended in a turn
	runnerRetry Retry         // while the runner can't be had
	runnerPause chan struct{} // not nil: it may not be asked for until this is closed

	mu        sync.Mutex
	targets   map[string]*target
	jobs      map[int64]*job    // claimed and not at their end
	doubtful  map[int64]doubt   // claims whose commit may or may not have happened
	waiters   map[int64]*waiter // clients that wait, by job
	inbox     inbox
	launcher  Launcher
	strangers int // rows under way that belong to no worker
	surveyed  bool
	fresh     bool // the journal held nothing when the worker was opened
	stopping  bool
	failure   error
	beginning sync.WaitGroup // announced jobs whose start is not asked for yet, by groups
	running   sync.WaitGroup // slots in use, and answers under way
}

// New makes a worker. Run makes it work.
func New(c Config) *Worker {
	w := &Worker{
		Config: c, launcher: c.Launcher,
		nudge: make(chan struct{}, 1), stop: make(chan struct{}),
		turns: make(chan struct{}, 1), turned: make(chan struct{}),
		hurry: make(chan struct{}), failed: make(chan struct{}),
		targets: make(map[string]*target), jobs: make(map[int64]*job),
		doubtful: make(map[int64]doubt), waiters: make(map[int64]*waiter),
	}
	for name, concurrency := range c.Targets {
		w.targets[name] = &target{name: name, concurrency: concurrency}
	}
	return w
}

// Open journals the start and takes up what a former run left. It comes before Run, and
// before anything is served.
func (w *Worker) Open(pid int) error {
	w.Recorder.View(func(s *journal.State) { w.fresh = s.Seq == 0 })
	opened := journal.Opened{Name: w.Name, Version: w.Version, Pid: pid, BootID: w.BootID, Targets: w.Targets}
	if _, err := w.Recorder.Append(journal.Draft{Payload: opened}); err != nil {
		return fmt.Errorf("open worker %s: %w", w.Name, err)
	}
	return w.recover()
}

// Run claims and runs jobs until ctx ends. Then it claims nothing more, gives
// back what has not started, and returns when what runs has ended (see Config.ShutdownTimeout).
// It fails when the journal does.
func (w *Worker) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-w.failed:
			cancel()
		case <-ctx.Done():
		}
	}()
	turning, endTurns := context.WithCancel(context.Background())
	go func() {
		defer close(w.turned)
		w.turnLoop(turning)
	}()
	w.PollAll()
	w.claimLoop(ctx)
	w.drain()
	endTurns()
	<-w.turned
	w.callOff(w.takeOff())
	if err := w.err(); err != nil {
		return err
	}
	_, err := w.Recorder.Append(journal.Draft{Payload: journal.Closed{Reason: w.closing()}})
	return err
}

// Hurry makes a worker that stops kill what runs at once. It may be called more than once.
func (w *Worker) Hurry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.hurry:
	default:
		close(w.hurry)
	}
}

// SetLauncher makes jobs started from now on use another launcher.
func (w *Worker) SetLauncher(l Launcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.launcher = l
}

// HandOver makes a worker that stops, or will be, leave what runs to the next start.
func (w *Worker) HandOver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Handover = true
}

// handsOver tells whether what runs is left to the next start.
func (w *Worker) handsOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Handover
}

// closing is why the run of the worker ends.
func (w *Worker) closing() string {
	if w.handsOver() {
		return "handed over"
	}
	return "stopped"
}

// fail ends the worker: without a journal nothing may happen any more.
func (w *Worker) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		w.failure = fmt.Errorf("worker %s: %w", w.Name, err)
		close(w.failed)
	}
}

func (w *Worker) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// append makes drafts durable. Any error but a full disk or a contradiction means that the
// journal takes nothing more, and ends the worker.
func (w *Worker) append(drafts ...journal.Draft) ([]journal.Event, error) {
	events, err := w.Recorder.Append(drafts...)
	var illegal *journal.IllegalError
	if err != nil && !errors.Is(err, journal.ErrFull) && !errors.As(err, &illegal) {
		w.fail(err)
	}
	return events, err
}

// record is append for what has happened already, and is known only here until
// it is written: a full disk is waited out.
func (w *Worker) record(drafts ...journal.Draft) ([]journal.Event, error) {
	events, err := w.append(drafts...)
	if !errors.Is(err, journal.ErrFull) {
		return events, err
	}
	ctx, cancel := w.until(w.hurry)
	defer cancel()
	w.Disk.Release()
	events, err = w.append(drafts...)
	for retry := w.Retry("append to the journal"); errors.Is(err, journal.ErrFull); {
		if retry.Wait(ctx, err) != nil {
			return nil, err
		}
		events, err = w.append(drafts...)
	}
	return events, err
}

// until is a context that ends when the worker has failed, or a channel is closed.
func (w *Worker) until(closed <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-w.failed:
			cancel()
		case <-closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// wake makes the claim loop look for room.
func (w *Worker) wake() {
	select {
	case w.nudge <- struct{}{}:
	default:
	}
}

// names lists the targets served, in order. The lock is held.
func (w *Worker) names() []string { return slices.Sorted(maps.Keys(w.targets)) }

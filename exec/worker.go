package exec

import (
	"cmp"
	"context"
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
	Host            string         // the machine's name
	Launcher        Launcher
	MaxOutput       int           // bytes kept of stdout and of stderr, each
	FetchLimit      int           // most rows in one claim; 0: no limit
	Prefetch        int           // jobs claimed beyond the free slots; negative: one a slot
	PollInterval    time.Duration // ± a fifth; 0: the worker polls only when asked
	LaunchOffline   bool          // start claimed jobs while the database is away
	Requeue         bool          // start jobs of unknown outcome again, instead of failing them
	LostAfter       time.Duration // for how long nobody must have held a mark, before its rows count as lost with a journal
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

	// OnNameTaken is called, again and again, when another worker has had the name for NamePatience, this one never had it,
	// and no job is under way; it must not block, and may be nil.
	OnNameTaken  func(*NameTakenError)
	NamePatience time.Duration

	// Knows tells whether the journal's history holds a claim of a job, by its token, that is at its end. Its row is
	// then no lost one: what became of the job is known. It may be nil.
	Knows func(ctx context.Context, job int64, token string) bool

	// Ignored lists the rows that were ignored last before this start; it may be nil. Whether that was committed the rows
	// tell.
	Ignored func() []int64

	// LastWords gives what is to be journalled before the end of the worker's run, if anything; it may be nil.
	LastWords func() []journal.Payload
}

// Worker takes jobs from claim to done. All methods are safe for concurrent use;
// Run must be called once.
type Worker struct {
	Config
	nudge  chan struct{} // something may be claimed
	stop   chan struct{} // closed when the worker starts nothing any more
	hurry  chan struct{} // closed when stopping must not take time
	failed chan struct{} // closed when the journal takes no more
	turns  chan struct{} // something is in the inbox
	turned chan struct{} // closed when no turn is taken any more
	again  chan struct{} // room for those who try rows that somebody else holds again

	startsTimeout time.Duration // of awaitStarts
	changing      sync.Mutex    // held while targets are changed, across journal and memory
	noting        sync.Mutex    // held while something is journalled by Note, and at the end
	closed        bool          // the end is journalled; guarded by noting
	adding        sync.Mutex    // held while a target is added, across the table's word on its name too
	identifying   sync.Mutex    // held while name and mark are taken, across table, journal and memory

	// The turn loop's.
	busy        time.Time     // when more than one job ended in a turn
	runnerRetry Retry         // while the runner can't be had
	runnerPause chan struct{} // not nil: it may not be asked for until this is closed

	claims claims // the claim loop's

	mu        sync.Mutex
	quiet     *sync.Cond // a target has no start under way any more
	targets   map[string]*target
	jobs      map[int64]*job    // claimed and not at their end
	doubtful  map[int64]*doubt  // claims whose commit may or may not have happened, or that are to be given up
	asides    map[int64]*aside  // rows that the table does not let us claim
	skipped   map[int64]*target // rows that wait while their job is still under way here
	waiters   map[int64]*waiter // clients that wait, by job
	odd       []AsideRow        // rows that can never be claimed
	inbox     inbox
	launcher  Launcher
	launchers int       // how often it was replaced
	hitch     *hitch    // why no job can be started; nil where nothing is wrong
	hitchRest backoff   // until the launcher is looked at again
	unhitched time.Time // when jobs could be started again
	identity  identity
	asked     asked
	outage    string // why nothing at all is claimed; "" where nothing is wrong
	strangers int    // rows under way that belong to no worker
	added     int    // targets that were added
	namesDue  bool   // the table is to be asked whether it takes the targets' names
	handover  bool   // as Config.Handover, or because of HandOver
	fresh     bool   // the journal held nothing when the worker was opened
	stopping  bool
	failure   error
	beginning tally // groups of jobs whose start is not asked for yet, jobs to be given back, manual claims
	running   tally // slots in use, jobs to be given back, and answers under way
}

// New makes a worker. Run makes it work.
func New(c Config) *Worker {
	w := &Worker{
		Config: c, launcher: c.Launcher,
		nudge: make(chan struct{}, 1), stop: make(chan struct{}),
		turns: make(chan struct{}, 1), turned: make(chan struct{}),
		hurry: make(chan struct{}), failed: make(chan struct{}), again: make(chan struct{}, retriers),
		targets: make(map[string]*target), jobs: make(map[int64]*job),
		doubtful: make(map[int64]*doubt), asides: make(map[int64]*aside),
		skipped: make(map[int64]*target), waiters: make(map[int64]*waiter),
	}
	w.quiet, w.namesDue = sync.NewCond(&w.mu), true
	for name, concurrency := range c.Targets {
		w.targets[name] = &target{name: name, concurrency: concurrency}
	}
	w.claims.renew()
	w.startsTimeout, w.handover = startsTimeout, c.Handover
	return w
}

// Open journals the start and takes up what a former run left. It comes before Run, and
// before anything is served.
func (w *Worker) Open(pid int) error {
	w.Recorder.View(func(s *journal.State) { w.fresh = s.Name == "" })
	opened := journal.Opened{
		Name: w.Name, Version: w.Version, Pid: pid, BootID: w.BootID, Targets: w.Targets,
		Host: w.Host, Launcher: w.Launcher.Words,
	}
	var ignored []int64
	if w.Ignored != nil {
		ignored = w.Ignored()
	}
	if _, err := w.Recorder.Append(journal.Draft{Payload: opened}); err != nil {
		return fmt.Errorf("open worker %s: %w", w.Name, err)
	}
	return w.recover(ignored)
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
	if err := w.err(); err != nil {
		return err
	}
	return w.journalEnd()
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

// SetLauncher makes jobs started from now on use another launcher. Where none could be started, it is looked at at once.
func (w *Worker) SetLauncher(l Launcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.launcher = l
	w.launchers++
	if w.hitch != nil {
		go w.examine(true)
	}
}

// HandOver makes a worker that stops, or will be, leave what runs to the next start.
func (w *Worker) HandOver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handover = true
}

// handsOver tells whether what runs is left to the next start.
func (w *Worker) handsOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.handover
}

// closing is why the run of the worker ends.
func (w *Worker) closing() string {
	if w.handsOver() {
		return "handed over"
	}
	return "stopped"
}

// wake makes the claim loop look for room.
func (w *Worker) wake() {
	select {
	case w.nudge <- struct{}{}:
	default:
	}
}

// names lists the targets served, in order: those of the start by name, then the others as they came.
// The lock is held.
func (w *Worker) names() []string {
	return slices.SortedFunc(maps.Keys(w.targets), func(a, b string) int {
		return cmp.Or(cmp.Compare(w.targets[a].since, w.targets[b].since), cmp.Compare(a, b))
	})
}

// fitNames lists the targets whose names the table takes. The lock is held.
func (w *Worker) fitNames() []string {
	return slices.DeleteFunc(w.names(), func(name string) bool { return w.targets[name].unfit != "" })
}

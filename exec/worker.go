package exec

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"jobd/exec/board"
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
	Terms           map[string]Terms // by target; one that is not there has none of its own
	Delays          bool             // rows may be delayed: the table uses run_at
	Again           bool             // rows may come back: the table uses run_at, planned_at and attempts
	Zone            *time.Location   // of schedules whose rows name none; nil: UTC
	SkipMissed      bool             // a scheduled run that was missed is not made up for
	MaxOutput       int              // bytes kept of stdout and of stderr, each
	FetchLimit      int              // most rows in one claim; 0: no limit
	Prefetch        int              // jobs claimed beyond the free slots; negative: one a slot
	PollInterval    time.Duration    // ± a fifth; 0: the worker polls only when asked
	LaunchOffline   bool             // start claimed jobs while the database is away
	Requeue         bool             // start jobs of unknown outcome again, instead of failing them
	LostAfter       time.Duration    // for how long nobody must have held a mark, before its rows count as lost with a journal
	MaxAttempts     int              // how often a job is started at most where Requeue is set
	ShutdownTimeout time.Duration    // 0: no limit
	Handover        bool             // on stop leave what runs to the runner, for the next start

	Recorder  Recorder
	Table     Claimer
	Mirror    Mirror
	Runner    Runner
	Pools     Pools     // nil: no launcher keeps processes
	Requester Requester // nil: no launcher makes requests
	Keeper    Keeper
	Watcher   Watcher
	Disk      Disk
	Retry     func(what string, about ...any) Retry // about: keys and values for the log
	Logger    *slog.Logger
	Observer  Observer // nil: nobody counts
	OnTargets func()   // called when the set of targets has changed; must not block

	// OnNameTaken is called, again and again, when another worker has had the name for
	// NamePatience, this one never had it, and no job is under way; it must not block, and may be
	// nil.
	OnNameTaken  func(*NameTakenError)
	NamePatience time.Duration

	// Knows tells whether the journal's history holds a claim of a job, by its token, that is at
	// its end. Its row is then no lost one: what became of the job is known. It may be nil.
	Knows func(ctx context.Context, job int64, token string) bool

	// Doubtful gives the rows that were ignored last before this start, and those that were set back
	// last, with the event that says so; it may be nil. Whether that was committed the rows tell.
	Doubtful func() (ignored []int64, retried map[int64]journal.Retried)

	// OnRetried is called with the targets of rows that were set back to waiting; it may be nil.
	OnRetried func(targets []string)

	// WasManual tells whether the job's row was to be run by hand only, as far as the journal knows;
	// it may be nil.
	WasManual func(ctx context.Context, job int64) bool

	// TurnPulse and ClaimPulse are told how the two loops go; nil: nobody is.
	TurnPulse, ClaimPulse Pulse

	// Waiting is how many threads of the host wait for a processor; nil: nobody knows.
	Waiting func() int

	// LastWords gives what is to be journalled before the end of the worker's run, if anything; it
	// may be nil.
	LastWords func() []journal.Payload
}

// Worker takes jobs from claim to done. All methods are safe for concurrent use; Run must be called
// once.
type Worker struct {
	Config
	nudge  chan struct{} // something may be claimed
	turns  chan struct{} // something is in the inbox
	turned chan struct{} // closed when no turn is taken any more
	again  chan struct{} // room for clients that try rows that somebody else holds again

	turnKnock, claimKnock chan struct{} // the loop is to come round

	whole   context.Context // ends when the journal takes no more
	active  context.Context // ends when the worker starts nothing any more, and with whole
	patient context.Context // ends when stopping must not take time, and with whole

	endWhole, endActive, endPatient context.CancelFunc

	starts  group // claims by hand and starts: a worker that stops waits for them
	answers group // answers to clients whose jobs are at their end: likewise
	others  group // everything else: nothing waits for it

	startsTimeout time.Duration // of awaitStarts
	changing      sync.Mutex    // held while targets are changed, across journal and memory
	noting        sync.Mutex    // held while something is journalled by Note, and at the end
	closed        bool          // the end is journalled; guarded by noting
	adding        sync.Mutex    // held while a target is added, across the table's word on its name too
	declaring     sync.Mutex    // held while executors are told what there is to be
	identifying   sync.Mutex    // held while name and mark are taken, across table, journal and memory

	// The turn loop's.
	busy        time.Time     // when more than one job ended in a turn
	usual       time.Duration // about how long jobs ran of late
	runnerRetry Retry         // while the runner can't be had
	runnerPause chan struct{} // not nil: it may not be asked for until this is closed

	claims claims // the claim loop's

	mu         sync.Mutex
	board      *board.Board       // jobs, slots, claims in doubt and targets
	targets    map[string]*target // the board's, with what claims have found
	asides     map[int64]*aside   // rows that the table does not let us claim
	probing    *rate.Limiter      // of questions about them
	odd        []AsideRow         // rows that can never be claimed
	launcher   Launcher
	terms      map[string]Terms // by target
	zone       *time.Location   // of schedules whose rows name none
	skipMissed bool             // a scheduled run that was missed is not made up for
	clock      clock            // of the table's server
	offers     offers
	identity   identity
	asked      asked
	outage     outage
	full       full
	strangers  int  // rows under way that belong to no worker
	awaiting   bool // somebody waits for the table on behalf of targets that are behind
	namesDue   bool // the table is to be asked whether it takes the targets' names
	handover   bool // as Config.Handover, or because of HandOver
	fresh      bool // the journal held nothing when the worker was opened
	failure    error
}

// New makes a worker. Run makes it work.
func New(c Config) *Worker {
	if c.Observer == nil {
		c.Observer = deaf{}
	}
	w := &Worker{
		Config: c, launcher: c.Launcher, terms: c.Terms, zone: c.Zone, skipMissed: c.SkipMissed,
		nudge: make(chan struct{}, 1), turns: make(chan struct{}, 1), turned: make(chan struct{}),
		again:     make(chan struct{}, retriers),
		turnKnock: make(chan struct{}, 1), claimKnock: make(chan struct{}, 1),
		board: board.New(board.Config{
			Targets: c.Targets, Requeue: c.Requeue, MaxAttempts: c.MaxAttempts,
			Delays: c.Delays, Again: c.Again, Timing: timing(c.Launcher, c.Terms, c.Zone, c.SkipMissed),
		}),
		targets:  make(map[string]*target),
		asides:   make(map[int64]*aside),
		probing:  newProbing(),
		namesDue: true,
	}
	w.whole, w.endWhole = context.WithCancel(context.Background())
	w.active, w.endActive = context.WithCancel(w.whole)
	w.patient, w.endPatient = context.WithCancel(w.whole)
	for name := range c.Targets {
		w.targets[name] = &target{Target: w.board.Target(name)}
	}
	w.Delays = c.Delays || c.Again
	w.TurnPulse, w.ClaimPulse = watched(c.TurnPulse), watched(c.ClaimPulse)
	w.offers.upTo = make(map[string]uint64)
	w.claims.renew()
	w.startsTimeout, w.handover = startsTimeout, c.Handover
	return w
}

// wake makes the claim loop look for room.
func (w *Worker) wake() {
	select {
	case w.nudge <- struct{}{}:
	default:
	}
}

// fitNames lists the targets whose names the table takes. Callers must hold w.mu.
func (w *Worker) fitNames() []string {
	return slices.DeleteFunc(w.board.Names(), func(name string) bool { return w.targets[name].unfit != "" })
}

package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/board"
	"jobd/journal"
)

// Config says what a worker is made of.
type Config struct {
	Name          string
	Version       string
	BootID        string
	Targets       map[string]int // concurrency by target
	Host          string         // the machine's name
	Launcher      Launcher
	Terms         map[string]Terms     // by target; one that is not there has none of its own
	Found         map[string]*Launcher // launchers of targets that no configuration names, see FindTarget
	Delays        bool                 // rows may be delayed: the table uses run_at
	Again         bool                 // rows may come back: the table uses run_at, planned_at and attempts
	Zone          *time.Location       // of schedules whose rows name none; nil: UTC
	SkipMissed    bool                 // a scheduled run that was missed is not made up for
	MaxOutput     int                  // bytes kept of stdout and of stderr, each
	FetchLimit    int                  // most rows in one claim; 0: no limit
	Prefetch      int                  // jobs claimed beyond the free slots; negative: as the pace of a target allows
	PollInterval  time.Duration        // ± a fifth; 0: the worker polls only when asked
	LaunchOffline bool                 // start claimed jobs while the database is away
	Requeue       bool                 // start jobs of unknown outcome again, instead of failing them
	// LostAfter: how long nobody must hold a worker id before its rows count as lost with a journal.
	LostAfter       time.Duration
	MaxAttempts     int           // how often a job is started at most where Requeue is set
	ShutdownTimeout time.Duration // 0: no limit
	Handover        bool          // on stop leave what runs to the runner, for the next start

	Recorder  Recorder
	Table     Claimer
	Mirror    Mirror
	Runner    Runner
	Pools     Pools
	Requester Requester
	Keeper    Keeper
	Watcher   Watcher
	Disk      Disk
	Retry     func(what string, about ...any) Retry // about: keys and values for the log
	Logger    *slog.Logger
	Observer  Observer
	OnTargets func() // called when the set of targets has changed; must not block

	// LastStart gives the time at which a former run of the worker last started a job of a target; zero
	// where it started none after the given time. So a restart makes no start beyond a rate.
	LastStart func(target string, after time.Time) time.Time

	// Knows tells whether the journal's history holds the claim of a job that has this token and has come
	// to its end. It also gives this claim if it was given up and certainly never started the job.
	Knows func(ctx context.Context, job int64, token string) (known bool, unstarted *journal.Accepted)

	// Doubtful gives the rows that were ignored last before this start (journal.Ignored), and those that
	// were set back last (journal.Retried). Whether that was committed the rows tell.
	Doubtful func() map[int64]journal.Payload

	// OnRetried is called with the targets of rows that were set back to waiting, so that all look for them who
	// may run them, this worker too.
	OnRetried func(targets []string)

	// WasManual tells whether the job's row was of status manual, as far as the journal knows.
	WasManual func(ctx context.Context, job int64) bool

	// Pulse hears when each WatchdogPing begins and ends; nil: nobody does.
	Pulse Pulse

	// Displaced is the runner that jobs under way were announced for, where another process was found in
	// its place; "": none was.
	Displaced string

	// LastWords gives events to journal before the end of the worker's run.
	LastWords func() []journal.Payload
}

// Worker takes jobs from claim to done. All methods are safe for concurrent use; Run must be called
// once.
type Worker struct {
	Config               // Launcher, Terms, Zone and SkipMissed may change (SetTerms): mu guards them once Run is called
	nudge  chan struct{} // something may be claimed
	turns  chan struct{} // something is in the inbox
	turned chan struct{} // closed when no turn is taken any more

	pinging  atomic.Bool // a watchdog ping is under way
	handover atomic.Bool // as Config.Handover, or because of HandOver

	whole   context.Context // ends when the journal takes no more
	active  context.Context // ends when the worker starts nothing any more, and with whole
	patient context.Context // ends when stopping must not take time, and with whole

	endWhole, endActive, endPatient context.CancelFunc

	starts group          // claims by hand, starts, and answers to clients: a worker that stops waits for them
	others sync.WaitGroup // everything else: nothing waits for it

	startsTimeout time.Duration // of awaitStarts

	mostQuarantined int        // rows that are remembered as refused
	changing        sync.Mutex // held while targets are changed, across journal and memory
	noting          sync.Mutex // held while something is journalled by Note, and at the end
	closed          bool       // the end is journalled; guarded by noting
	adding          sync.Mutex // held while a target is added, across the table's word on its name too
	declaring       sync.Mutex // held while declare tells the executors their pools and services
	meeting         sync.Mutex // held while it is looked which runner is there; of met
	met             string     // the runner that was there last; "": none was yet
	identifying     sync.Mutex // held while name and worker id are taken, across table, journal and memory

	// The turn loop's.
	runnerRetry Retry       // while the runner can't be had
	runnerAway  atomic.Bool // it may not be asked for, for a moment

	claims claims // the claim loop's

	mu          sync.Mutex
	board       *board.Board           // jobs, slots, claims in doubt and targets
	changed     chan struct{}          // closed when the board changes; nil while nobody waits for that
	targets     map[string]*target     // the board's, with what claims have found
	quarantined map[int64]*quarantined // rows that the table does not let us claim
	clock       clock                  // of the table's server
	identity    identity
	asked       time.Time // since when the database is asked for a claim; zero: it is not
	outage      outage
	unowned     int           // rows under way that belong to no worker
	survey      board.Backoff // of the next look for rows of this worker
	awaiting    bool          // somebody waits for the table on behalf of targets that are behind
	namesDue    bool          // ask the table whether it takes the targets' names
	fresh       bool          // the journal held nothing when the worker was opened
	failure     error
}

// New makes a worker. Run makes it work.
func New(c Config) *Worker {
	w := &Worker{
		Config: c, met: c.Displaced,
		nudge: make(chan struct{}, 1), turns: make(chan struct{}, 1), turned: make(chan struct{}),
		board: board.New(board.Config{
			Worker: c.Name, Targets: c.Targets, Requeue: c.Requeue, MaxAttempts: c.MaxAttempts,
			Delays: c.Delays, Again: c.Again, Timing: c.timing(),
		}),
		targets:     make(map[string]*target),
		quarantined: make(map[int64]*quarantined),
		namesDue:    true,
	}
	w.whole, w.endWhole = context.WithCancel(context.Background())
	w.active, w.endActive = context.WithCancel(w.whole)
	w.patient, w.endPatient = context.WithCancel(w.whole)
	for name := range c.Targets {
		t := &target{Target: w.board.Target(name)}
		if r := c.Terms[name].Rate; r.Starts > 0 {
			t.bucket.last = c.LastStart(name, time.Now().Add(-r.each()))
		}
		w.targets[name] = t
	}
	w.Delays = c.Delays || c.Again
	w.claims.free, w.survey.Due = make(map[string]time.Time), time.Now()
	w.startsTimeout = startsTimeout
	w.handover.Store(c.Handover)
	w.starts.ended = func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.tellWaiting()
	}
	w.mostQuarantined = mostQuarantined
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

// Open journals the start and takes up what a former run left. It comes before Run, and before
// anything is served.
func (w *Worker) Open(pid int) error {
	w.Recorder.View(func(s *journal.State) { w.fresh = s.Name == "" })
	opened := journal.Opened{
		Name: w.Name, Version: w.Version, Pid: pid, BootID: w.BootID, Targets: w.Targets,
		Host: w.Host, Launcher: w.Launcher.Words, Launchers: LaunchersOf(w.Terms),
	}
	doubtful := w.Doubtful()
	if _, err := w.Recorder.Append(journal.Draft{Payload: opened}); err != nil {
		return fmt.Errorf("open worker %s: %w", w.Name, err)
	}
	w.declare()
	return w.recover(doubtful)
}

// Run claims and runs jobs until ctx ends. Then it claims nothing more, gives back what has not
// started, and returns when what runs has ended (see Config.ShutdownTimeout). It fails when the
// journal does.
func (w *Worker) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.whole, cancel)()
	turning, endTurns := context.WithCancel(context.Background())
	w.others.Go(func() { w.turnLoop(turning) })
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
func (w *Worker) Hurry() { w.endPatient() }

// HandOver makes a worker that stops, or will be, leave what runs to the next start.
func (w *Worker) HandOver() { w.handover.Store(true) }

// change tells the board what has happened, and carries out what follows. What may wait for the runner is
// done after the lock is released. Jobs that their claim announced are started by the caller.
func (w *Worker) change(event func(*board.Board) board.Effects) {
	w.mu.Lock()
	w.tellWaiting()
	e := event(w.board)
	w.follow(e)
	w.mu.Unlock()
	w.goOn(e.Held)
	for _, j := range e.Forget {
		w.Keeper.Forget(j.ID(), j.Token(), j.Attempt())
	}
	for _, s := range e.Start {
		if s.Claimed {
			w.start(s)
		}
	}
}

// changes gives a channel that is closed when the board changes next, or when a goroutine ends for which a
// stopping worker waits. Callers must hold w.mu.
func (w *Worker) changes() <-chan struct{} {
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

// tellWaiting has those look again who wait for the board. Callers must hold w.mu.
func (w *Worker) tellWaiting() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// until waits until is gives true for the board. It gives false when ctx ends first, or when the worker
// takes no more turns.
func (w *Worker) until(ctx context.Context, is func(*board.Board) bool) bool {
	for {
		w.mu.Lock()
		so, changed := is(w.board), w.changes()
		w.mu.Unlock()
		if so {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		case <-w.turned:
			return false
		}
	}
}

// follow carries out the effects of a change of the board, except Held, Forget and the starts that a claim
// announced, which change carries out. None of it waits: what takes time gets a goroutine. Callers must hold w.mu.
func (w *Worker) follow(e board.Effects) {
	for _, n := range e.Notes {
		w.Logger.Log(context.Background(), n.Level, n.Text, n.Args...)
	}
	w.poll(e.Poll...)
	if free := e.Free; len(free) > 0 { // a copy: if the closure used e, each call would put e on the heap
		w.others.Go(func() { w.OnRetried(slices.Compact(slices.Sorted(slices.Values(free)))) })
	}
	w.expect(e.Coming)
	if e.Wake {
		w.wake()
	}
	if e.Turn {
		w.nudgeTurn()
	}
	for _, s := range e.Look {
		w.others.Go(func() { w.look(s) })
	}
	for _, c := range e.Cancelled {
		c.To <- c
	}
	for _, s := range e.Signalled {
		s.To <- s.Err
	}
	for _, told := range e.Told {
		w.tellClient(told)
	}
	if group := e.Start; len(group) > 0 && !group[0].Claimed {
		w.starts.Go(func() { w.launch(group) })
	}
	for _, r := range e.Renewed {
		if r.Job.Retry == nil {
			r.Job.Retry = w.Retry("start a job", "job", r.Job.ID(), "target", r.Job.Target())
		}
		w.starts.Go(func() { w.announceAgain(r) })
	}
}

// tellClient tells a client what has become of its job or its row.
func (w *Worker) tellClient(told board.Told) {
	client, waits := told.Client.(*waiter)
	switch {
	case !waits:
	case told.End != nil:
		w.starts.Go(func() { w.answer(client, *told.End) })
	case told.Why != "":
		client.tell(nil, told.Why)
	default:
		client.tell(&Result{}, "")
	}
}

// Memory never runs ahead of the journal: the worker appends an event first, without its lock, and
// changes memory when that is durable. There are two ways. append, for what is only wanted, fails
// when the disk is full; nothing changes, and the worker tries again. record, for what has happened
// already, waits for room.

// append makes drafts durable. Any error but a full disk or a contradiction means that the journal
// takes nothing more, and ends the worker.
func (w *Worker) append(drafts ...journal.Draft) ([]journal.Event, error) {
	events, err := w.Recorder.Append(drafts...)
	if err != nil && !errors.Is(err, journal.ErrFull) && illegal(err) == nil {
		w.fail(err)
	}
	w.tell(events)
	return events, err
}

// illegal is the contradiction among an error's causes; nil where there is none.
func illegal(err error) *journal.IllegalError {
	var contradiction *journal.IllegalError
	if errors.As(err, &contradiction) {
		return contradiction
	}
	return nil
}

// record is append for what has happened already, and is known only here until it is written: a
// full disk is waited out.
func (w *Worker) record(drafts ...journal.Draft) ([]journal.Event, error) {
	events, err := w.append(drafts...)
	if !errors.Is(err, journal.ErrFull) {
		return events, err
	}
	w.Disk.Release()
	events, err = w.append(drafts...)
	retry := w.Retry("append to the journal")
	for errors.Is(err, journal.ErrFull) {
		if retry.Wait(w.patient, err) != nil {
			return nil, err
		}
		events, err = w.append(drafts...)
	}
	if err == nil {
		retry.Over()
	}
	return events, err
}

// Note journals what was asked of the worker, where that has no event of its own. What follows it
// must wait until it is durable. Nothing is noted once the end of the worker's run is journalled.
func (w *Worker) Note(payload journal.Payload) error {
	w.noting.Lock()
	defer w.noting.Unlock()
	if w.closed {
		return errStopping
	}
	_, err := w.append(journal.Draft{Payload: payload})
	return err
}

// journalEnd journals that the worker's run ended in order, as the last event of it.
func (w *Worker) journalEnd() error {
	w.noting.Lock()
	defer w.noting.Unlock()
	w.closed = true
	var drafts []journal.Draft
	for _, payload := range w.LastWords() {
		drafts = append(drafts, journal.Draft{Payload: payload})
	}
	reason := "stopped"
	if w.handover.Load() {
		reason = "handed over"
	}
	drafts = append(drafts, journal.Draft{Payload: journal.Closed{Reason: reason}})
	_, err := w.Recorder.Append(drafts...)
	if errors.Is(err, journal.ErrFull) {
		w.Disk.Release()
		_, err = w.Recorder.Append(drafts...)
	}
	return err
}

// fail ends the worker: without a journal nothing may happen any more.
func (w *Worker) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		w.failure = fmt.Errorf("worker %s: %w", w.Name, err)
		w.board.Fail()
		w.endWhole()
	}
}

func (w *Worker) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// rest waits. It is false when the worker stops.
func (w *Worker) rest(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.active.Done():
		return false
	}
}

// killDelay is how long jobs get between SIGTERM and SIGKILL, and how long the kernel gets after
// that.
const killDelay = 5 * time.Second

// drain ends the worker's work: nothing new starts, what has not started is given back, what runs
// may end, then is made to, or is left to the next start.
func (w *Worker) drain() {
	w.change(func(b *board.Board) board.Effects {
		w.endActive()
		return b.Stop()
	})
	w.withdraw(nil)
	if w.handover.Load() {
		w.leaveRunning()
	} else {
		w.endRunning()
	}
}

// starting tells of a job that its start, or its release, is under way; working of one that the worker
// waits for when it ends its jobs; requesting of one that is a request, which nobody can take over.
func starting(j *board.Job) bool { return j.Phase().Starts() }
func working(j *board.Job) bool  { return j.Phase().Works() }
func requesting(j *board.Job) bool {
	return working(j) && !starting(j) && Mode(j.Executor()).Requests()
}

// ended tells of the board that no job is as unwanted says, while no start is under way any more, and no
// client waits for an answer.
func (w *Worker) ended(unwanted func(*board.Job) bool) func(*board.Board) bool {
	return func(b *board.Board) bool { return w.starts.none() && len(b.Select(unwanted)) == 0 }
}

// count counts the jobs that are wanted.
func (w *Worker) count(wanted func(*board.Job) bool) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.board.Select(wanted))
}

// leaveRunning waits until every start under way has happened or not, and what was not started is
// given back, so that the journal is not closed in the middle of one. It does not wait for long:
// what a crash would leave to the next start, this leaves to it. For requests, which end with the worker,
// it waits as for all jobs of a worker that stops (Config.ShutdownTimeout); of what is left then the
// outcome is unknown, as the next start finds.
func (w *Worker) leaveRunning() {
	if !w.within(w.startsTimeout, w.ended(starting)) {
		w.Logger.Warn("some starts and releases are still under way; the worker's next start takes them up", "jobs", w.count(starting))
	}
	if n := w.count(requesting); n > 0 {
		w.Logger.Info("waiting for requests: they end with this process", "jobs", n, "limit", w.ShutdownTimeout)
		if !w.within(w.ShutdownTimeout, func(b *board.Board) bool { return len(b.Select(requesting)) == 0 }) {
			w.Logger.Warn("requests are given up; the outcome of their jobs is unknown", "jobs", w.count(requesting))
		}
	}
	w.Logger.Info("jobs are left to the next start", "jobs", w.runningJobs())
	w.change(func(b *board.Board) board.Effects {
		return b.RefuseClients(true, func(id int64) string {
			return fmt.Sprintf("job %d goes on while the worker restarts; its row will tell how it ended", id)
		})
	})
}

// endRunning waits for what runs, then ends it. One that the kernel can't end is left behind.
func (w *Worker) endRunning() {
	if !w.awaits(w.ShutdownTimeout, "SIGTERM") {
		w.signalAll(unix.SIGTERM)
		if !w.awaits(killDelay, "SIGKILL") {
			w.signalAll(unix.SIGKILL)
			killed, cancel := context.WithTimeout(w.whole, killDelay)
			defer cancel()
			if !w.until(killed, w.ended(working)) && w.whole.Err() == nil {
				w.Logger.Error("jobs survived SIGKILL; the next start takes them up", "jobs", w.runningJobs())
				w.Hurry() // what the disk has no room for is not waited for either
			}
		}
	}
	w.change(func(b *board.Board) board.Effects { // those that are left
		return b.RefuseClients(false, func(id int64) string { return fmt.Sprintf("job %d %s: the worker is stopping", id, notRun) })
	})
}

// within waits until the board is as is says, for a time (0: no limit) or until there is a hurry. Without a
// journal nothing may be done to jobs, and nothing is waited for.
func (w *Worker) within(limit time.Duration, is func(*board.Board) bool) bool {
	ctx, cancel := context.WithCancel(w.patient)
	if limit > 0 {
		ctx, cancel = context.WithTimeout(w.patient, limit)
	}
	defer cancel()
	return w.until(ctx, is) || w.whole.Err() != nil
}

// awaits waits until all jobs have ended, and says which are waited for, what those get that run still at the
// end, and when.
func (w *Worker) awaits(limit time.Duration, signal string) bool {
	text, until := "the stop waits for jobs, however long they run", []any(nil)
	if limit > 0 {
		text = "the stop waits for jobs; those that run for longer get " + signal
		until = []any{"at", time.Now().Add(limit).Format(time.TimeOnly)}
	}
	if jobs := w.runningJobs(); len(jobs) > 0 {
		w.Logger.Warn(text, append([]any{"running", len(jobs), "jobs", jobs[:min(len(jobs), mostTold)]}, until...)...)
	}
	return w.within(limit, w.ended(working))
}

// mostTold is how many jobs a worker that stops names of those that it waits for.
const mostTold = 20

// Pulse hears that a piece of work begins, which takes no longer than memory does, and that it has
// ended. The methods must not block.
type Pulse interface {
	Works()
	Waits()
}

// WatchdogPing takes the lock that all loops of the worker share, and gives it back. The lock is free
// again and again; a worker whose loops hang with it is seen, because Pulse hears that the ping works
// and not that it has ended. It does not block.
func (w *Worker) WatchdogPing() {
	if w.Pulse == nil || !w.pinging.CompareAndSwap(false, true) {
		return
	}
	w.others.Go(func() {
		defer w.pinging.Store(false)
		w.Pulse.Works()
		_ = w.err()
		w.Pulse.Waits()
	})
}

// group counts goroutines that a worker which stops waits for.
type group struct {
	n     atomic.Int64
	ended func() // called when none runs any more
}

// Go runs f in a goroutine of the group.
func (g *group) Go(f func()) {
	g.n.Add(1)
	go func() {
		f()
		if g.n.Add(-1) == 0 {
			g.ended()
		}
	}()
}

// none tells whether no goroutine of the group runs.
func (g *group) none() bool { return g.n.Load() == 0 }

package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/board"
	"jobd/journal"
)

// The worker that has a job cancels it. The board says what it is at that moment, under the worker's
// lock. A job on its way to its start leaves the board, and its row becomes ignored. For a process
// the worker journals its SIGTERM with the wish, in one append, and sends it. So a start at the same
// moment is either taken back or signalled. A row that nobody has is marked as ignored as run-manual
// does it.
//
// The crash argument:
//
//   - Before the wish is journalled: nothing was done, and nobody was told that it was.
//   - After that, of a job that was not started: it is over; the mirror brings its row up to date.
//   - After that, of a job that runs, before SIGTERM is sent: SIGKILL follows when the grace is
//     over. The next start knows from the journal who wants the job to end, and since when. It
//     sends no SIGTERM once more: most jobs have had theirs, and a second one tells many to hurry.
//   - Between the end of the grace and SIGKILL: the next start sends it.
//   - The runner killed as well: the process is signalled by the next start, as above. Its outcome is
//     unknown, and it is not run again, whatever on_crash says.

// CancelWish says which jobs somebody wants cancelled.
type CancelWish struct {
	IDs     []int64
	Targets map[int64]string // of some of them: a job of another target is left alone
	Grace   time.Duration    // between SIGTERM and SIGKILL
	Rows    bool             // rows too that nobody has claimed
	By      string

	Unstarted bool // a job that runs is left alone

	Schedule bool // of rows that recur: they end, whether a run of them is under way or not
}

// Cancelled tells what became of the jobs of a CancelWish. One that this worker does not have is in
// none of the maps, unless the wish was for rows too.
type Cancelled struct {
	Answer[CancelledJob]
	Elsewhere map[int64]journal.Row // a worker has them, which is not this one as far as is known
}

// CancelledJob is what became of a job that was cancelled.
type CancelledJob struct {
	Did    board.Cancelling
	Target string
	Grace  time.Duration // of one that runs, from At on
	At     time.Time
	By     string // who cancelled it first, or wants it to end sooner
	Next   int64  // of a row that goes on to recur: its next run, in seconds since 1970
}

// cancelTimeout is for what a job that is about to be started waits for, and for the table.
const cancelTimeout = 5 * time.Second

// Cancel cancels jobs. It fails, without having changed anything, where the journal's disk has too
// little room.
func (w *Worker) Cancel(ctx context.Context, wish CancelWish) (told Cancelled, err error) {
	if err := w.Disk.Check(); err != nil {
		return told, RefusedError("nothing was cancelled: there is no room for the journal: " + err.Error())
	}
	told.Jobs, told.Errors, told.Elsewhere = make(map[int64]CancelledJob), make(map[int64]string), make(map[int64]journal.Row)
	ids := slices.Compact(slices.Sorted(slices.Values(wish.IDs)))
	var absent []int64
	limited, cancel := context.WithTimeout(context.Background(), cancelTimeout)
	defer cancel()
	for group := range slices.Chunk(ids, mostTogether) {
		absent = append(absent, w.cancelGroup(limited, group, wish, &told)...)
	}
	if wish.Rows && len(absent) > 0 {
		if w.Delays {
			w.awaitTold() // one that has just come back is cancelled as a delayed row
		}
		if err := w.cancelRows(ctx, absent, wish, &told); err != nil {
			return Cancelled{}, err
		}
	}
	told.Requested = len(told.Jobs) > 0
	return told, nil
}

// JobsOf lists the jobs of a target that the worker has; with waiting only those that have not been started.
func (w *Worker) JobsOf(target string, waiting bool) []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return ids(w.board.Select(func(j *board.Job) bool {
		return j.Target() == target && (j.Waits() || !waiting && j.Process() != nil)
	}))
}

func ids(jobs []*board.Job) (ids []int64) {
	for _, j := range jobs {
		ids = append(ids, j.ID())
	}
	return ids
}

// cancelling is a job that is cancelled, or why it is not.
type cancelling struct {
	board.Cancel
	id     int64
	absent bool // the worker does not have it
}

// cancelGroup cancels those of some jobs that the worker has, and gives the others.
func (w *Worker) cancelGroup(ctx context.Context, ids []int64, wish CancelWish, told *Cancelled) (absent []int64) {
	ended := make(chan cancelling, len(ids))
	for _, id := range ids {
		go func() { ended <- w.cancelJob(ctx, id, wish) }()
	}
	shown := time.NewTimer(answerDelay)
	defer shown.Stop()
	for range ids {
		switch c := <-ended; {
		case c.absent:
			absent = append(absent, c.id)
		case c.Err != nil:
			told.Errors[c.id] = fmt.Sprintf("job %d %s: %v", c.id, notCancelled, c.Err)
		default:
			told.Jobs[c.id] = CancelledJob{Did: c.Did, Target: c.Job.Target(), Grace: c.Grace, At: c.At, By: c.By, Next: c.Next}
			if c.Seq > 0 {
				select {
				case <-w.Mirror.Shown(c.Seq, c.id):
				case <-shown.C:
					shown.Reset(0)
				}
			}
		}
	}
	return absent
}

// cancelJob cancels a job that the worker has. Where nothing can be said of it yet, because its claim is in
// doubt, or its start or its end is under way, this waits.
func (w *Worker) cancelJob(ctx context.Context, id int64, wish CancelWish) cancelling {
	failed := func(err error) cancelling { return cancelling{id: id, Cancel: board.Cancel{Err: err}} }
	var takenBack Process
	for {
		to := make(chan board.Cancel, 1)
		look, limit := w.tellCancel(id, wish, to), ctx.Done()
		switch {
		case look.job == nil && !look.doubtful:
			return cancelling{id: id, absent: true}
		case look.err != nil:
			return failed(look.err)
		case look.changes == nil: // it is about to be journalled
			limit = nil
		case look.process != nil && look.process != takenBack: // what was taken back may have been started anew
			takenBack = look.process
			takeBack(takenBack)
		}
		select {
		case c := <-to:
			if !errors.Is(c.Err, board.ErrGone) {
				w.endCancelled(c, look.process)
				return cancelling{id: id, Cancel: c}
			}
		case <-look.changes:
		case <-limit:
			return failed(look.why())
		case <-w.turned:
			return failed(errStopping)
		}
	}
}

// cancelLook is what the board says of a job that somebody cancels.
type cancelLook struct {
	job      *board.Job // nil: the worker does not have it
	process  Process
	doubtful bool            // its claim is in doubt
	changes  <-chan struct{} // nil: the wish is about to be journalled
	err      error
}

// why is why a job was not cancelled that nothing can be said of for too long.
func (l cancelLook) why() error {
	if l.job == nil {
		return errors.New("it is not known yet whether its claim was committed; try again")
	}
	return errors.New("its start or its end is not confirmed yet; try again")
}

// tellCancel tells the board that somebody cancels a job.
func (w *Worker) tellCancel(id int64, wish CancelWish, to chan<- board.Cancel) (look cancelLook) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.board.Job(id)
	look.changes = w.changes()
	if j == nil {
		look.doubtful = w.board.Holds(id)
		return look
	}
	look.job = j
	if target := wish.Targets[id]; target != "" && target != j.Target() {
		look.err = fmt.Errorf("it is of target '%s', not '%s'", j.Target(), target)
		return look
	}
	if wish.Unstarted && (j.Phase() == board.Running || j.Phase() == board.Ending) {
		look.err = errors.New("it was started")
		return look
	}
	look.process, _ = w.board.Unwanted(j).(Process)
	taken, e := w.board.Cancel(board.Cancel{Job: j, By: wish.By, Grace: wish.Grace, Schedule: wish.Schedule, To: to})
	if taken {
		look.changes = nil
		w.tellWaiting()
		w.follow(e)
	}
	return look
}

// endCancelled sends a cancelled job that runs its signals, now and later.
func (w *Worker) endCancelled(c board.Cancel, process Process) {
	if c.Err != nil || process == nil || c.Did != board.Signals && c.Did != board.Hurries {
		return
	}
	if c.Did == board.Signals {
		if process.Signal(int(unix.SIGTERM)) != nil {
			w.others.Go(func() { w.deliver(process, unix.SIGTERM, c.Grace) })
		}
	}
	wish := journal.Cancellation{Time: journal.Moment{Time: c.At}, By: c.By, Grace: c.Grace.Microseconds()}
	w.killLater(c.Job, process, wish)
}

// killLater sends a job that was cancelled SIGKILL when its grace is over and it still runs. A clock
// that was set back makes the grace no longer than it is.
func (w *Worker) killLater(j *board.Job, process Process, c journal.Cancellation) {
	left := min(max(time.Until(c.Deadline()), 0), time.Duration(c.Grace)*time.Microsecond)
	w.others.Go(func() {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-process.Ended():
			return
		case <-w.turned: // the next start sends it
			return
		case <-timer.C:
		}
		w.Logger.Warn("a job that was cancelled still runs; killing it", "job", j.ID(), "by", c.By, "grace", c.Grace)
		switch err := w.journalSignal(j, journal.Signal{Signo: int(unix.SIGKILL), By: c.By}); {
		case err == nil:
			w.deliver(process, unix.SIGKILL, forGood)
		case !errors.Is(err, board.ErrGone):
			w.Logger.Warn("a job was not killed: the kill could not be journalled", "job", j.ID(), "error", err)
		}
	})
}

// signalAgain is how long a signal that the runner has not got waits for the next try, and forGood longer than
// any job runs.
const (
	signalAgain = time.Second
	forGood     = time.Duration(math.MaxInt64)
)

// deliver sends a cancelled job a signal until the runner has got it, which may be away or stand still for a
// moment; no longer than some time.
func (w *Worker) deliver(process Process, signo unix.Signal, most time.Duration) {
	late := time.After(most)
	for process.Signal(int(signo)) != nil {
		select {
		case <-process.Ended():
			return
		case <-w.turned: // the next start sends SIGKILL
			return
		case <-late:
			return
		case <-time.After(signalAgain):
		}
	}
}

// cancelRows ignores rows that nobody has claimed, whatever their target. It waits for a claim that
// has locked a row at the same moment, and then tells what the row is.
func (w *Worker) cancelRows(ctx context.Context, ids []int64, want CancelWish, told *Cancelled) error {
	targets := make(map[int64]string, len(ids))
	accept := func(_ *board.Claim, row journal.Row, _, _ string) (drafts []journal.Draft, refusal string) {
		if target := want.Targets[row.Job]; target != "" && target != row.Target {
			return nil, fmt.Sprintf("job %d %s: it is of target '%s', not '%s'", row.Job, notCancelled, row.Target, target)
		}
		drafts, refusal, elsewhere := w.board.CancelRow(row, want.By, want.Schedule)
		if elsewhere {
			told.Elsewhere[row.Job] = row
		}
		targets[row.Job] = row.Target
		return drafts, refusal
	}
	refuse := func(why string) {
		for _, id := range ids {
			told.Errors[id] = fmt.Sprintf("job %d %s: %s", id, notCancelled, why)
		}
	}
	if IsClosed(w.Mirror.Away()) {
		refuse("nobody is known to have it, and the database could not be reached")
		return nil
	}
	rows, err := do(ctx, w, ids, act{
		what: "cancel jobs", undone: notCancelled, limit: cancelTimeout, accept: accept,
		doubted: func(int64) string {
			return journal.CancelledBy(want.By) + "; it is not known yet whether the row was marked as ignored"
		},
	}, func(id int64, _ Result) CancelledJob {
		return CancelledJob{Did: board.NotRun, Target: targets[id], By: want.By}
	})
	if errors.Is(err, errStopping) {
		refuse(err.Error())
		return nil
	}
	maps.Copy(told.Jobs, rows.Jobs)
	for id, why := range rows.Errors {
		if _, elsewhere := told.Elsewhere[id]; !elsewhere {
			told.Errors[id] = why
		}
	}
	return err
}

// PlanWish says how somebody changes the plans of delayed rows by hand.
type PlanWish struct {
	Hand board.Hand
	IDs  []int64
	By   string
}

// Plan changes the plans of delayed rows, whatever their target, as a claim by hand does: locked,
// journalled, updated, committed. It tells when they were due before, or, continued, are due now, in seconds
// since 1970. It fails, without having changed anything, when the worker stops, and
// where the journal's disk has too little room or the database is away.
func (w *Worker) Plan(ctx context.Context, wish PlanWish) (told Answer[int64], err error) {
	if !w.Delays {
		return told, RefusedError("delayed rows are not run here: the key use_columns does not name run_at")
	}
	if err := w.Disk.Check(); err != nil {
		return told, RefusedError("no row was changed: there is no room for the journal: " + err.Error())
	}
	if IsClosed(w.Mirror.Away()) {
		return told, RefusedError("no row was changed: the database could not be reached")
	}
	ids := slices.Compact(slices.Sorted(slices.Values(wish.IDs)))
	due := make(map[int64]int64, len(ids))
	w.awaitTold()
	return do(ctx, w, ids, act{
		what: "plan delayed jobs by hand", undone: notPlanned, limit: claimTimeout,
		doubted: func(id int64) string {
			return fmt.Sprintf("job %d: it is unknown whether its row was changed; look at the row", id)
		},
		accept: func(_ *board.Claim, row journal.Row, _, _ string) (drafts []journal.Draft, refusal string) {
			if row.Plan != nil {
				due[row.Job] = row.Plan.RunAt
			}
			drafts, refusal = w.board.PlanRow(wish.Hand, row, wish.By, w.clock.now(time.Now()))
			if wish.Hand == board.Continue && refusal == "" {
				due[row.Job] = drafts[0].Payload.(journal.Planned).To.RunAt
			}
			return drafts, refusal
		},
	}, func(id int64, _ Result) int64 { return due[id] })
}

// awaitTold waits a moment for the table to show what the journal has: a row that has just come back
// reads as running before that.
func (w *Worker) awaitTold() {
	var newest uint64
	w.Recorder.View(func(s *journal.State) { newest = s.Seq })
	timer := time.NewTimer(answerDelay)
	defer timer.Stop()
	w.eventually(w.Mirror.Tried(newest), timer.C)
}

// lastSignal is the highest signal number of Linux.
const lastSignal = 64

// SendSignal sends signals to the process groups of jobs that run here, and tells for each whether
// it was delivered. Signal 0 only probes. by is who asked.
func (w *Worker) SendSignal(signals map[int64]int, by string) map[int64]bool {
	delivered := make(map[int64]bool, len(signals))
	for _, id := range slices.Sorted(maps.Keys(signals)) {
		delivered[id] = w.signal(id, signals[id], by)
	}
	return delivered
}

// signal journals a signal and sends it.
func (w *Worker) signal(id int64, signo int, by string) bool {
	if signo < 0 || signo > lastSignal {
		return false
	}
	j, process := w.process(id)
	if process == nil {
		return false
	}
	ends := by != board.ByShutdown && j.Claim().Plan != nil
	if signo > 0 {
		err := w.journalSignal(j, journal.Signal{Signo: signo, By: by, Ends: ends})
		if errors.Is(err, board.ErrGone) {
			return false
		}
		if err != nil {
			w.Logger.Warn("signal was not sent: it could not be journalled", "job", id, "signal", signo, "error", err)
			return false
		}
	}
	return process.Signal(signo) == nil
}

// journalSignal has the next turn journal a signal.
func (w *Worker) journalSignal(j *board.Job, signal journal.Signal) error {
	journalled := make(chan error, 1)
	w.hear(News{Job: j.ID(), Token: j.Token(), Attempt: j.Attempt()}) // its process comes before it in the journal
	w.change(func(b *board.Board) board.Effects {
		return b.Signal(board.Signal{Job: j, Event: signal, To: journalled})
	})
	select {
	case err := <-journalled:
		return err
	case <-w.turned:
		return board.ErrGone
	}
}

// startTimeout bounds how long a signal waits for the start of a job whose row says running
// already.
const startTimeout = time.Second

// process is a job that runs here and its process, or nil. A job that is just being started is
// waited for.
func (w *Worker) process(id int64) (j *board.Job, process Process) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	known := w.until(ctx, func(b *board.Board) bool {
		j = b.Job(id)
		return j == nil || !j.Phase().Starts() && j.Phase() != board.Asked
	})
	if !known || j == nil {
		return nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	process, _ = j.Process().(Process)
	return j, process
}

// runningJobs lists the jobs that have a process.
func (w *Worker) runningJobs() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return ids(w.board.Select(func(j *board.Job) bool { return j.Process() != nil }))
}

// signalAll signals everything that runs because the worker stops. It does not wait for long: where
// the disk is full, signals can't be journalled, and are not sent.
func (w *Worker) signalAll(signal unix.Signal) {
	var sending sync.WaitGroup
	for _, id := range w.runningJobs() {
		sending.Go(func() { w.signal(id, int(signal), board.ByShutdown) })
	}
	sent := make(chan struct{})
	go func() {
		sending.Wait()
		close(sent)
	}()
	timer := time.NewTimer(killDelay)
	defer timer.Stop()
	select {
	case <-sent:
	case <-w.patient.Done():
	case <-timer.C:
	}
}

package gearman

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/net/gearman"
	"jobd/store/sqlite"
)

// intake makes rows of what clients submit, and answers those who wait for them.
type intake struct {
	front *Front

	queue gathered

	mu       sync.Mutex
	held     map[*gearman.Peer][]*gearman.Submission // of clients whose first one of them meets a job that is over
	stopping bool                                    // clients go because the worker stops: their jobs stay
	jobs     map[int64]*job                          // that clients wait for
	waits    map[*gearman.Peer]map[int64]*job        // the same, by client
	ended    map[int64]uint64                        // jobs that the journal has ended, and perhaps the table not yet: by which event
	tidyAt   int                                     // when so many are in ended, those that the table shows are forgotten
	memory   map[int64]workload                      // of rows that no worker has had yet
	kept     int                                     // bytes in memory
	leaving  []int64                                 // jobs whose last client is gone, which are cancelled
	settled  chan struct{}                           // closed when some of them are
	look     *time.Timer                             // the next look at the rows of jobs; nil: nobody waits
}

// job is one that clients wait for.
type job struct {
	id         int64
	clients    []*waiter
	background bool            // somebody else wants it run, too, or may want it
	kind       gearman.Kind    // what its worker said at the end, until that is journalled; 0: nothing yet
	last       gearman.Payload // of that
}

// waiter is a client that waits for a job. What happens before it was told of the job it is told behind that.
type waiter struct {
	job     *job
	client  *gearman.Peer
	created bool // it was told of the job
	gone    bool
	held    []func()
}

// workload is what a row has for its worker.
type workload struct {
	bytes  []byte
	unique string
}

const (
	mostKept     = 32 << 20 // bytes of workloads in memory
	longWorkload = 64 << 10 // is not kept there
	mostEnded    = 4096     // ended jobs, until it is looked which of them the table shows
	mostLooked   = 500      // rows in one look
	lookEvery    = 5 * time.Second
	shownIn      = 5 * time.Second // the table shows an end; else the submission is refused
)

func newIntake(f *Front) *intake {
	in := &intake{
		front: f, jobs: map[int64]*job{}, waits: map[*gearman.Peer]map[int64]*job{}, held: map[*gearman.Peer][]*gearman.Submission{},
		ended: map[int64]uint64{}, tidyAt: mostEnded, memory: map[int64]workload{},
	}
	in.queue = gathered{tasks: &f.tasks, take: in.insert}
	return in
}

// keyOf is what a row has as its unique key: a hash of function and unique id, and behind it the id itself, which the
// worker is told. An empty id has none; that of "-" is made of the workload.
func keyOf(function, unique string, workload []byte) string {
	if unique == "" {
		return ""
	}
	of := "unique\x00" + function + "\x00" + unique
	if unique == "-" {
		of = "workload\x00" + function + "\x00" + string(workload)
	}
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:16]) + ":" + unique
}

// uniqueOf is the id in a unique key.
func uniqueOf(key string) string {
	_, unique, _ := strings.Cut(key, ":")
	return unique
}

// Submit implements gearman.Intake.
func (in *intake) Submit(s *gearman.Submission) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if before, held := in.held[s.From]; held {
		in.held[s.From] = append(before, s)
	} else {
		in.queue.add(s)
	}
}

// overError says that submissions meet rows that nobody may join any more: their jobs are over, which the table is
// about to show, or are being cancelled.
type overError struct {
	meets map[int]meeting // by the place of the submission
}

// meeting is of a submission with a job that is over.
type meeting struct {
	ended   int64           // the job, where it is one that has ended
	settled <-chan struct{} // closed when the row may show it
}

// Error implements error.
func (*overError) Error() string {
	return "the row of an ended job does not show its end yet; submit it again"
}

// insert writes some submissions and answers them, in their order. Who waits is known before anybody can see a row.
// Those that meet a job that is over wait, with those that their clients have sent behind them.
func (in *intake) insert(batch []*gearman.Submission) {
	if !within(shownIn, in.front.CaughtUp) { // what ended before this start is shown first
		in.answer(batch, nil, nil, &overError{})
		return
	}
	for over := new(overError); len(batch) > 0; {
		taken, waiters, err := in.try(batch)
		if !errors.As(err, &over) {
			in.answer(batch, taken, waiters, err)
			return
		}
		batch = in.hold(batch, over.meets)
	}
}

// try writes submissions, all or none of them.
func (in *intake) try(batch []*gearman.Submission) (taken []sqlite.Taken, waiters []*waiter, err error) {
	rows := make([]sqlite.Submitted, len(batch))
	for i, s := range batch {
		rows[i] = sqlite.Submitted{
			Target: s.Function, UniqueKey: keyOf(s.Function, s.Unique, s.Workload.Bytes), Workload: s.Workload.Bytes,
			Priority: s.Priority, RunAt: s.At, Most: in.front.functions.limit(s.Function),
		}
	}
	err = in.front.Table.Submit(context.Background(), rows, func(told []sqlite.Taken) error {
		in.mu.Lock()
		defer in.mu.Unlock()
		for i, w := range waiters { // the transaction begins once more
			in.undo(taken[i], w)
		}
		taken, waiters = nil, nil
		meets := map[int]meeting{}
		for i, t := range told {
			switch seq, over := in.ended[t.ID]; {
			case !t.Joined:
			case over:
				meets[i] = meeting{t.ID, in.front.Shown(seq, t.ID)}
			case slices.Contains(in.leaving, t.ID):
				meets[i] = meeting{settled: in.settled}
			}
		}
		if len(meets) > 0 {
			return &overError{meets}
		}
		taken, waiters = told, make([]*waiter, len(batch))
		for i, t := range told {
			waiters[i] = in.register(batch[i], t)
		}
		return nil
	})
	return taken, waiters, err
}

// hold holds submissions of clients back, each from the first one on that meets a job that is over, with what has come
// from the same clients meanwhile. It gives the others.
func (in *intake) hold(batch []*gearman.Submission, meets map[int]meeting) (others []*gearman.Submission) {
	in.mu.Lock()
	defer in.mu.Unlock()
	defer func() {
		for _, s := range in.queue.cut(func(s *gearman.Submission) bool { return in.held[s.From] != nil }) {
			in.held[s.From] = append(in.held[s.From], s)
		}
	}()
	for i, s := range batch {
		over, is := meets[i]
		before, held := in.held[s.From]
		switch {
		case held:
			in.held[s.From] = append(before, s)
		case is:
			in.held[s.From] = []*gearman.Submission{s}
			in.front.tasks.Go(func() { in.letGo(s, over) })
		default:
			others = append(others, s)
		}
	}
	return others
}

// letGo lets the submissions of a client go when the row that the first one meets may show its end. Where it does not
// in time, that one is refused.
func (in *intake) letGo(first *gearman.Submission, over meeting) {
	settled := within(shownIn, over.settled)
	in.mu.Lock()
	defer in.mu.Unlock()
	held := in.held[first.From]
	delete(in.held, first.From)
	if settled {
		delete(in.ended, over.ended) // the row shows its end, or never will
	} else {
		first.Refused("QUEUE_ERROR", notWritten+(*overError)(nil).Error())
		first.Workload.Drop()
		held = held[1:]
	}
	in.queue.add(held...)
}

// within tells whether a channel is closed in time.
func within(limit time.Duration, closed <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-closed:
		return true
	case <-timer.C:
		return false
	}
}

// notWritten begins what a client is told of a submission that became no row.
const notWritten = "The job could not be written: "

// register notes who waits for a row that is about to be committed. Callers must hold in.mu.
func (in *intake) register(s *gearman.Submission, t sqlite.Taken) *waiter {
	if t.Full || t.Err != nil {
		return nil
	}
	if n := len(s.Workload.Bytes); !t.Joined && n <= longWorkload && in.kept+n <= mostKept {
		in.memory[t.ID] = workload{s.Workload.Bytes, s.Unique}
		in.kept += n
	}
	j := in.jobs[t.ID]
	if s.Background {
		if j != nil {
			j.background = true
		}
		return nil
	}
	if j == nil {
		j = &job{id: t.ID, background: t.Joined} // nobody knows who else wants a row that was there
		in.jobs[t.ID] = j
	}
	w := &waiter{job: j, client: s.From, gone: s.From.Context().Err() != nil}
	j.clients = append(j.clients, w)
	of := in.waits[s.From]
	if of == nil {
		of = map[int64]*job{}
		in.waits[s.From] = of
	}
	of[t.ID] = j
	if in.look == nil {
		in.look = time.AfterFunc(lookEvery, in.lookAtRows)
	}
	return w
}

// answer tells clients what has become of their submissions, and the worker that there are rows.
func (in *intake) answer(batch []*gearman.Submission, taken []sqlite.Taken, waiters []*waiter, err error) {
	if err != nil {
		in.front.Logger.Warn("jobs of Gearman clients could not be inserted", "jobs", len(batch), "error", err)
	}
	in.mu.Lock()
	var targets []string
	for i, s := range batch {
		switch {
		case err != nil:
			if i < len(waiters) {
				in.undo(taken[i], waiters[i])
			}
			s.Refused("QUEUE_ERROR", notWritten+err.Error())
		case taken[i].Full:
			s.Refused("QUEUE_ERROR", "Job queue is full")
		case taken[i].Err != nil:
			s.Refused("QUEUE_ERROR", "The table refuses the job: "+taken[i].Err.Error())
		default:
			s.Created(in.front.handle(taken[i].ID))
			in.created(waiters[i])
			if !slices.Contains(targets, s.Function) {
				targets = append(targets, s.Function)
			}
		}
		s.Workload.Drop()
	}
	in.mu.Unlock()
	for _, name := range targets { // somebody may have dropped it just then
		if err := in.front.functions.Add(name, byRows); err != nil {
			in.front.Logger.Error("jobs wait for a function that is not served", "function", name, "error", err)
		}
	}
	in.front.Worker.GivenBack(targets)
}

// created tells a client what has become of its job up to now. Callers must hold in.mu.
func (in *intake) created(w *waiter) {
	if w == nil {
		return
	}
	w.created = true
	for _, tell := range w.held {
		tell()
	}
	w.held = nil
	if w.gone {
		in.leave(w)
	}
}

// undo takes back what register has noted, since nothing was committed. Callers must hold in.mu.
func (in *intake) undo(t sqlite.Taken, w *waiter) {
	if !t.Joined {
		in.drop(t.ID)
	}
	if w != nil {
		w.job.background = true // nobody is to cancel it
		in.leave(w)
	}
}

// leave takes a client from a job that it waits for. A job that nobody else wants is cancelled, unless it runs.
// Callers must hold in.mu.
func (in *intake) leave(w *waiter) {
	j := w.job
	if in.jobs[j.id] != j {
		return
	}
	j.clients = slices.DeleteFunc(j.clients, func(one *waiter) bool { return one == w })
	if !slices.ContainsFunc(j.clients, func(one *waiter) bool { return one.client == w.client }) {
		in.unlist(w.client, j.id)
	}
	if len(j.clients) > 0 {
		return
	}
	delete(in.jobs, j.id)
	j.last.Drop()
	if !j.background && !in.stopping {
		if in.leaving = append(in.leaving, j.id); len(in.leaving) == 1 {
			in.settled = make(chan struct{})
			in.front.tasks.Go(in.cancelLeft)
		}
	}
}

func (in *intake) unlist(p *gearman.Peer, id int64) {
	if delete(in.waits[p], id); len(in.waits[p]) == 0 {
		delete(in.waits, p)
	}
}

// stop says that connections end because the worker stops. Jobs that wait are run by the next start, and joined by
// clients that submit them again.
func (in *intake) stop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stopping = true
	if in.look != nil {
		in.look.Stop()
	}
}

// Left implements gearman.Intake.
func (in *intake) Left(p *gearman.Peer) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, j := range in.waits[p] {
		for _, w := range slices.Clone(j.clients) {
			switch {
			case w.client != p:
			case w.created:
				in.leave(w)
			default:
				w.gone = true
			}
		}
	}
}

// byClients is on whose behalf jobs are cancelled whose clients are gone.
const byClients = "gearman: its last client is gone"

// cancelLeft cancels jobs whose last client is gone and that do not run.
func (in *intake) cancelLeft() {
	for {
		in.mu.Lock()
		ids := slices.Clone(in.leaving)
		in.mu.Unlock()
		if len(ids) == 0 {
			return
		}
		_, err := in.front.Worker.Cancel(context.Background(), jobexec.CancelWish{IDs: ids, Rows: true, Unstarted: true, By: byClients})
		if err != nil {
			in.front.Logger.Warn("jobs whose clients are gone could not be cancelled", "jobs", len(ids), "error", err)
		}
		in.mu.Lock()
		in.leaving = in.leaving[len(ids):]
		close(in.settled)
		in.settled = make(chan struct{})
		in.mu.Unlock()
	}
}

// takeWorkload is what a row has for its worker, if that is in memory still, from where it goes.
func (in *intake) takeWorkload(id int64) (w workload, known bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	w, known = in.memory[id]
	in.drop(id)
	return w, known
}

// drop forgets a workload. Callers must hold in.mu.
func (in *intake) drop(id int64) {
	in.kept -= len(in.memory[id].bytes)
	delete(in.memory, id)
}

// tell tells the clients of a job something. Callers must hold in.mu.
func (j *job) tell(last gearman.Payload, send func(p *gearman.Peer)) {
	for _, w := range j.clients {
		if w.created {
			send(w.client)
			continue
		}
		kept := last.Keep()
		w.held = append(w.held, func() {
			send(w.client)
			kept.Drop()
		})
	}
}

// live passes on what a worker says of a job that it runs.
func (in *intake) live(id int64, kind gearman.Kind, args []string, last gearman.Payload) {
	in.mu.Lock()
	defer in.mu.Unlock()
	j := in.jobs[id]
	if j == nil {
		return
	}
	handle := in.front.handle(id)
	j.tell(last, func(p *gearman.Peer) {
		if kind == gearman.WorkStatus {
			p.Send(kind, handle, args[0], args[1])
		} else {
			p.SendPayload(kind, last, handle)
		}
	})
}

// wrote passes on what a launcher's process has written, and tells whether somebody waits for more.
func (in *intake) wrote(id int64, part []byte) bool {
	if len(part) > 0 {
		in.live(id, gearman.WorkData, nil, gearman.Payload{Bytes: part})
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.jobs[id] != nil && !in.stopping
}

// final keeps what a worker has said at the end, all of it, until that is journalled.
func (in *intake) final(id int64, kind gearman.Kind, last gearman.Payload) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if j := in.jobs[id]; j != nil {
		j.last.Drop()
		j.kind, j.last = kind, last.Keep()
	}
}

// committed hears what is journalled.
func (in *intake) committed(events []journal.Event) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, e := range events {
		switch p := e.Payload.(type) {
		case journal.Started:
			if p.Pid != 0 && in.jobs[e.Job] != nil { // a launcher runs it
				in.front.outputs.follow(e.Job, func(part []byte) bool { return in.wrote(e.Job, part) })
			}
		case journal.Done:
			in.drop(e.Job) // where something else has run it
			j := in.jobs[e.Job]
			if p.Again != nil {
				if j != nil {
					j.last.Drop()
					j.kind, j.last = 0, gearman.Payload{}
				}
				continue
			}
			in.over(e)
			if j != nil {
				in.end(j, p.Result == "ok", p.Stdout.Kept)
			}
		case journal.Ignored:
			in.drop(e.Job)
			in.over(e)
			if j := in.jobs[e.Job]; j != nil {
				in.end(j, false, nil)
			}
		}
	}
}

// over notes that a job has ended, whose row nobody joins any more. Callers must hold in.mu.
func (in *intake) over(e journal.Event) {
	if in.ended[e.Job] = e.Seq; len(in.ended) > in.tidyAt {
		in.tidy()
	}
}

// tidy forgets those of the ended jobs that the table shows.
func (in *intake) tidy() {
	reached := in.front.Reached()
	maps.DeleteFunc(in.ended, func(_ int64, seq uint64) bool { return seq <= reached })
	in.tidyAt = max(mostEnded, 2*len(in.ended))
}

// end tells the clients of a job how that ended, and forgets it. What its worker has sent they get whole; else what
// was kept of it. Callers must hold in.mu.
func (in *intake) end(j *job, fine bool, kept []byte) {
	delete(in.jobs, j.id)
	for _, w := range j.clients {
		in.unlist(w.client, j.id)
	}
	last, handle := j.last, in.front.handle(j.id)
	if fine && j.kind != gearman.WorkComplete {
		last.Drop()
		last = gearman.Payload{Bytes: kept}
	}
	j.tell(last, func(p *gearman.Peer) {
		switch {
		case fine:
			p.SendPayload(gearman.WorkComplete, last, handle)
		case j.kind == gearman.WorkException && p.Exceptions():
			p.SendPayload(gearman.WorkException, last, handle)
		default:
			p.Send(gearman.WorkFail, handle)
		}
	})
	last.Drop()
}

// lookAtRows looks at the rows of jobs that clients wait for: another worker of the same file may have run them, or
// somebody may have deleted them.
func (in *intake) lookAtRows() {
	in.mu.Lock()
	ids := slices.Sorted(maps.Keys(in.jobs))
	in.look = nil
	if len(ids) > 0 {
		in.look = time.AfterFunc(lookEvery, in.lookAtRows)
	}
	in.mu.Unlock()
	for some := range slices.Chunk(ids, mostLooked) {
		rows, err := in.front.Table.Submissions(context.Background(), some, nil)
		if err != nil {
			return // it is looked again
		}
		there := make(map[int64]bool, len(rows))
		in.mu.Lock()
		for _, row := range rows {
			there[row.ID] = true
			over := row.Status == journal.RowDone || row.Status == journal.RowIgnored
			if j := in.jobs[row.ID]; j != nil && over {
				in.end(j, row.Result == "ok", row.Stdout)
			}
		}
		for _, id := range some {
			if j := in.jobs[id]; j != nil && !there[id] && j.clients[0].created {
				in.end(j, false, nil)
			}
		}
		in.mu.Unlock()
	}
}

// Standing implements gearman.Intake. A unique id alone names no function: that of any which the peer reaches counts.
func (in *intake) Standing(ctx context.Context, q gearman.Question) (standing gearman.Standing, err error) {
	var ids []int64
	var keys []string
	if q.Handle != "" {
		ids = append(ids, in.front.idOf(q.Handle))
	} else {
		for _, name := range in.front.Worker.TargetNames() {
			if q.From.Reaches(name) && q.Unique != "" {
				keys = append(keys, keyOf(name, q.Unique, nil))
			}
		}
	}
	rows, err := in.front.Table.Submissions(ctx, ids, keys)
	for _, row := range rows {
		in.mu.Lock()
		_, over := in.ended[row.ID]
		n := 0
		if j := in.jobs[row.ID]; j != nil {
			n = len(j.clients)
		}
		in.mu.Unlock()
		if over || !q.From.Reaches(row.Target) || row.Status == journal.RowDone || row.Status == journal.RowIgnored {
			continue
		}
		standing = in.front.executor.standing(row.ID, row.Status)
		standing.Known, standing.Clients = true, n
		return standing, nil
	}
	return standing, err
}

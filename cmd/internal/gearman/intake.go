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

	mu       sync.Mutex
	queue    []*gearman.Submission
	writing  bool
	stopping bool                             // clients go because the worker stops: their jobs stay
	jobs     map[int64]*job                   // that clients wait for
	waits    map[*gearman.Peer]map[int64]*job // the same, by client
	ended    map[int64]uint64                 // jobs that the journal has ended, and perhaps the table not yet: by which event
	tidyAt   int                              // when so many are in ended, those that the table shows are forgotten
	memory   map[int64]workload               // of rows that no worker has had yet
	kept     int                              // bytes in memory
	leaving  []int64                          // jobs whose last client is gone, which are cancelled
	settled  chan struct{}                    // closed when some of them are
	look     *time.Timer                      // the next look at the rows of jobs; nil: nobody waits
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
	mostAtOnce   = 1000     // rows in a transaction
	mostBytes    = 64 << 20 // of their workloads, about
	mostKept     = 32 << 20 // bytes of workloads in memory
	longWorkload = 64 << 10 // is not kept there
	mostEnded    = 4096     // ended jobs, until it is looked which of them the table shows
	mostLooked   = 500      // rows in one look
	lookEvery    = 5 * time.Second
	shownIn      = 5 * time.Second // the table shows an end; else the submission is refused
)

func newIntake(f *Front) *intake {
	return &intake{
		front: f, jobs: map[int64]*job{}, waits: map[*gearman.Peer]map[int64]*job{},
		ended: map[int64]uint64{}, tidyAt: mostEnded, memory: map[int64]workload{},
	}
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
	in.queue = append(in.queue, s)
	if !in.writing {
		in.writing = true
		in.front.tasks.Go(in.write)
	}
}

// write writes what is submitted until there is nothing more: all that has come meanwhile in one transaction.
func (in *intake) write() {
	for {
		in.mu.Lock()
		n, bytes := 0, 0
		for n < min(len(in.queue), mostAtOnce) && bytes < mostBytes {
			bytes += len(in.queue[n].Workload.Bytes)
			n++
		}
		batch := slices.Clone(in.queue[:n])
		clear(in.queue[:n])
		if in.queue = in.queue[n:]; n == 0 {
			in.queue, in.writing = nil, false
			in.mu.Unlock()
			return
		}
		in.mu.Unlock()
		in.insert(batch)
	}
}

// overError says that a submission meets a row that nobody may join any more: its job is over, which the table is
// about to show, or is being cancelled.
type overError struct {
	settled <-chan struct{}
	ended   int64 // the job, where it is one that has ended
}

// Error implements error.
func (*overError) Error() string {
	return "the row of a job that is over does not show it yet; submit it again"
}

// insert writes some submissions and answers them, in their order. Who waits is known before anybody can see a row.
func (in *intake) insert(batch []*gearman.Submission) {
	rows := make([]sqlite.Submitted, len(batch))
	for i, s := range batch {
		rows[i] = sqlite.Submitted{
			Target: s.Function, UniqueKey: keyOf(s.Function, s.Unique, s.Workload.Bytes), Workload: s.Workload.Bytes,
			Priority: s.Priority, RunAt: s.At, Most: in.front.functions.limit(s.Function),
		}
	}
	var taken []sqlite.Taken
	var waiters []*waiter
	try := func() error {
		return in.front.Table.Submit(context.Background(), rows, func(told []sqlite.Taken) error {
			in.mu.Lock()
			defer in.mu.Unlock()
			for _, t := range told {
				if seq, over := in.ended[t.ID]; over && t.Joined {
					return &overError{in.front.Shown(seq, t.ID), t.ID}
				}
				if t.Joined && slices.Contains(in.leaving, t.ID) {
					return &overError{settled: in.settled}
				}
			}
			taken, waiters = told, make([]*waiter, len(batch))
			for i, t := range told {
				waiters[i] = in.register(batch[i], t)
			}
			return nil
		})
	}
	err := error(&overError{settled: in.front.CaughtUp}) // what ended before this start is shown first
	timer := time.NewTimer(shownIn)
	defer timer.Stop()
	for over, late := new(overError), false; errors.As(err, &over) && !late; {
		select {
		case <-over.settled:
			in.mu.Lock()
			delete(in.ended, over.ended)
			in.mu.Unlock()
			err = try()
		case <-timer.C:
			late = true
		}
	}
	in.answer(batch, taken, waiters, err)
}

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
			s.Refused("QUEUE_ERROR", "The job could not be written: "+err.Error())
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
			in.front.Logger.Warn("jobs whose clients are gone are not cancelled", "jobs", len(ids), "error", err)
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

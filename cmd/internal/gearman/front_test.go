package gearman

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/gearman"
	"jobd/net/principal"
	"jobd/store"
	"jobd/store/sqlite"
	"jobd/store/storetest/must"
)

// worker stands for the worker: it runs rows as they are, one after the other in the order of their ids, and tells the
// front of what would be journalled.
type worker struct {
	t     *testing.T
	front *Front
	db    *sql.DB

	mu        sync.Mutex
	held      bool // nothing is started
	targets   map[string]int
	started   map[int64]jobexec.Process
	attempts  map[int64]int
	cancels   chan jobexec.CancelWish
	mayCancel chan struct{} // nil: at once
	ends      chan error
	slots     chan int // numbers that were set
	seq       uint64
}

func (w *worker) TargetNames() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.targets))
}

func (w *worker) Serves(name string) bool { return slices.Contains(w.TargetNames(), name) }

func (w *worker) FindTarget(name string, concurrency int, l jobexec.Launcher, _ string) error {
	w.mu.Lock()
	w.targets[name] = concurrency
	services := map[string]jobexec.Service{}
	for one := range w.targets {
		services[one] = l.Service
	}
	w.mu.Unlock()
	w.front.executor.setTargets(services)
	return nil
}

func (w *worker) SetConcurrency(name string, n int, _ string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.targets[name] = n
	w.slots <- n
	return nil
}

func (w *worker) RemoveTarget(name, _ string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.targets, name)
	return nil
}

func (w *worker) GivenBack([]string) { w.run() }

// run starts what waits.
func (w *worker) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows := must.Get(w.front.Table.Live(context.Background(), 1000))(w.t)
	for _, row := range rows {
		if w.held || row.Status != journal.RowWaiting || w.started[row.ID] != nil {
			continue
		}
		w.attempts[row.ID]++
		process := must.Get(Beside(w.front, nil).Start(jobexec.Spec{
			Mode: jobexec.ModeGearman, Target: row.Target, Job: row.ID, Attempt: w.attempts[row.ID], MaxOutput: 1000,
		}))(w.t)
		w.started[row.ID] = process
		go w.follow(row.ID, process)
	}
}

func (w *worker) follow(id int64, process jobexec.Process) {
	<-process.Begun()
	if process.Started().Address != "" {
		process.(jobexec.Held).Proceed()
	}
	<-process.Ended()
	done, err := process.Outcome()
	var not *jobexec.NotStartedError
	if err != nil && !errors.As(err, &not) {
		done.Result = "fail"
	}
	w.mu.Lock()
	delete(w.started, id)
	if not == nil {
		w.seq++
		must.Get(w.db.Exec("UPDATE jobs SET status = 'done', result = ?, stdout = ?, stderr = ?, unique_key = NULL WHERE id = ?",
			done.Result, string(done.Stdout.Kept), string(done.Stderr.Kept), id))(w.t)
	}
	seq := w.seq
	w.mu.Unlock()
	if not == nil {
		w.front.Committed([]journal.Event{{Seq: seq, Job: id, Payload: done}})
	}
	w.ends <- err
}

func (w *worker) Cancel(_ context.Context, wish jobexec.CancelWish) (told jobexec.Cancelled, err error) {
	w.cancels <- wish
	if w.mayCancel != nil {
		<-w.mayCancel
	}
	for _, id := range wish.IDs {
		must.Get(w.db.Exec("UPDATE jobs SET status = 'ignored', unique_key = NULL WHERE id = ?", id))(w.t)
		w.mu.Lock()
		if p := w.started[id]; p != nil {
			_ = p.Signal(15)
		}
		w.mu.Unlock()
		w.front.Committed([]journal.Event{{Job: id, Payload: journal.Ignored{}}})
	}
	return told, nil
}

func (w *worker) RunManual(context.Context, []int64, string) (answer jobexec.Answer[jobexec.Result], err error) {
	return answer, errors.New("not here")
}

// start serves on a free port, with a table of its own.
func start(t *testing.T, change func(*Config, *Parts)) (w *worker, address string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.db")
	table := must.Get(sqlite.New(sqlite.Config{Path: path, Uses: store.TimeColumns(), Submits: true}))(t)
	t.Cleanup(func() { _ = table.Close() })
	must.Do(t, table.Check(t.Context()))
	w = &worker{
		t: t, targets: map[string]int{}, started: map[int64]jobexec.Process{}, attempts: map[int64]int{},
		cancels: make(chan jobexec.CancelWish, 100), ends: make(chan error, 100), slots: make(chan int, 100),
	}
	w.db = must.Get(sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)"))(t)
	t.Cleanup(func() { _ = w.db.Close() })
	shown := make(chan struct{})
	close(shown)
	c := Config{
		Name: "node", MaxPacket: 1 << 20, Version: "1.2.3", Table: table, Logger: slog.New(slog.DiscardHandler),
		OnStanding: func(jobexec.PoolStanding) {},
	}
	p := Parts{
		Worker: w, Shown: func(uint64, int64) <-chan struct{} { return shown }, Reached: func() uint64 { return 1 << 60 }, CaughtUp: shown,
		Known:   func(peer jobnet.Peer) *principal.Session { return principal.Known("", "", peer.Address) },
		Refused: func(journal.Refused) {},
	}
	if change != nil {
		change(&c, &p)
	}
	w.front = New(c)
	w.front.Connect(p)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.front.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		must.Do(t, <-served)
	})
	return w, listener.Addr().String()
}

// peer is a client, a worker or an administrator.
type peer struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func connect(t *testing.T, address string) *peer {
	t.Helper()
	conn := must.Get(net.Dial("tcp", address))(t)
	t.Cleanup(func() { _ = conn.Close() })
	must.Do(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return &peer{t, conn, bufio.NewReader(conn)}
}

func (p *peer) send(kind gearman.Kind, args ...string) {
	p.t.Helper()
	body := strings.Join(args, "\x00")
	raw := binary.BigEndian.AppendUint32([]byte("\x00REQ"), uint32(kind))
	raw = binary.BigEndian.AppendUint32(raw, uint32(len(body)))
	must.Get(p.conn.Write(append(raw, body...)))(p.t)
}

// want reads a packet and compares it; it gives its last argument.
func (p *peer) want(kind gearman.Kind, args ...string) string {
	p.t.Helper()
	var head [12]byte
	must.Get(io.ReadFull(p.r, head[:]))(p.t)
	body := make([]byte, binary.BigEndian.Uint32(head[8:]))
	must.Get(io.ReadFull(p.r, body))(p.t)
	got := gearman.Kind(binary.BigEndian.Uint32(head[4:]))
	text := string(body)
	if want := strings.Join(args, "\x00"); got != kind || args != nil && text != want && !strings.HasPrefix(text, want+"\x00") {
		p.t.Fatalf("packet %d %.300q, not %d %.300q", got, text, kind, want)
	}
	return text[strings.LastIndex(text, "\x00")+1:]
}

// says sends a text command and compares what is said to it.
func (p *peer) says(command, want string) {
	p.t.Helper()
	must.Get(io.WriteString(p.conn, command))(p.t)
	got := make([]byte, len(want))
	must.Get(io.ReadFull(p.r, got))(p.t)
	if string(got) != want {
		p.t.Fatalf("%q: %q, not %q", command, got, want)
	}
}

// synced returns when all that was sent before is done.
func (p *peer) synced() {
	p.t.Helper()
	p.send(gearman.EchoReq, "here")
	p.want(gearman.EchoRes, "here")
}

// able is a worker that can do a function.
func able(t *testing.T, address, function string) *peer {
	p := connect(t, address)
	p.send(gearman.CanDo, function)
	p.synced()
	return p
}

// grab asks for a job until there is one.
func (p *peer) grab() string {
	p.t.Helper()
	for {
		p.send(gearman.GrabJobUniq)
		var head [12]byte
		must.Get(io.ReadFull(p.r, head[:]))(p.t)
		body := make([]byte, binary.BigEndian.Uint32(head[8:]))
		must.Get(io.ReadFull(p.r, body))(p.t)
		switch kind := gearman.Kind(binary.BigEndian.Uint32(head[4:])); kind {
		case gearman.JobAssignUniq:
			return string(body)
		case gearman.NoJob:
			p.send(gearman.PreSleep)
			p.want(gearman.Noop)
		default:
			p.t.Fatalf("packet %d %q for a GRAB_JOB_UNIQ", kind, body)
		}
	}
}

func (w *worker) row(id int64, column string) (text string) {
	w.t.Helper()
	must.Do(w.t, w.db.QueryRow("SELECT COALESCE("+column+", 'NULL') FROM jobs WHERE id = ?", id).Scan(&text))
	return text
}

func TestForegroundJob(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	client, runner := connect(t, address), able(t, address, "resize")
	client.send(gearman.SubmitJobHigh, "resize", "one", "a picture\x00with NUL")
	client.want(gearman.JobCreated, "H:node:1")
	if got := runner.grab(); got != "H:node:1\x00resize\x00one\x00a picture\x00with NUL" {
		t.Fatalf("assigned: %q", got)
	}
	if got := w.row(1, "status || priority || CAST(workload AS TEXT)"); got != "waiting1a picture\x00with NUL" {
		t.Errorf("the row: %q", got)
	}
	runner.send(gearman.WorkStatus, "H:node:1", "1", "3")
	runner.send(gearman.WorkData, "H:node:1", "half")
	runner.send(gearman.WorkWarning, "H:node:1", "hm")
	client.want(gearman.WorkStatus, "H:node:1", "1", "3")
	client.want(gearman.WorkData, "H:node:1", "half")
	client.want(gearman.WorkWarning, "H:node:1", "hm")
	client.send(gearman.GetStatus, "H:node:1")
	client.want(gearman.StatusRes, "H:node:1", "1", "1", "1", "3")
	client.send(gearman.GetStatusUnique, "one")
	client.want(gearman.StatusResUnique, "one", "1", "1", "1", "3", "1")
	long := strings.Repeat("x", 200_000)
	runner.send(gearman.WorkComplete, "H:node:1", long)
	if got := client.want(gearman.WorkComplete, "H:node:1"); got != long {
		t.Errorf("a result of %d bytes, not %d", len(got), len(long))
	}
	if err := <-w.ends; err != nil || w.row(1, "length(stdout)") != "1000" || w.row(1, "stderr") != "hm" {
		t.Errorf("%v, stdout of %s bytes, stderr %s", err, w.row(1, "length(stdout)"), w.row(1, "stderr"))
	}
	client.send(gearman.GetStatus, "H:node:1")
	client.want(gearman.StatusRes, "H:node:1", "0", "0", "0", "0")
	runner.send(gearman.WorkComplete, "H:node:1", "again")
	runner.want(gearman.Error, "JOB_NOT_FOUND")
}

func TestFailuresAndExceptions(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	plain, curious, runner := connect(t, address), connect(t, address), able(t, address, "f")
	curious.send(gearman.OptionReq, "exceptions")
	curious.want(gearman.OptionRes, "exceptions")
	curious.send(gearman.OptionReq, "colours")
	curious.want(gearman.Error, "UNKNOWN_OPTION")
	for i, p := range []*peer{plain, curious} {
		p.send(gearman.SubmitJob, "f", "same", strconv.Itoa(i))
		p.want(gearman.JobCreated, "H:node:1")
	}
	runner.grab()
	runner.send(gearman.WorkException, "H:node:1", "it broke")
	plain.want(gearman.WorkFail, "H:node:1")
	curious.want(gearman.WorkException, "H:node:1", "it broke")
	runner.send(gearman.WorkFail, "H:node:1") // as libraries do behind an exception
	runner.want(gearman.Error, "JOB_NOT_FOUND")
	if <-w.ends; w.row(1, "result || stderr") != "failit broke" {
		t.Errorf("the row: %s", w.row(1, "result || stderr"))
	}
	plain.send(gearman.SubmitJob, "f", "", "x")
	handle := plain.want(gearman.JobCreated)
	runner.grab()
	runner.send(gearman.WorkFail, handle)
	plain.want(gearman.WorkFail, handle)
}

// Who submits the same job is told the same handle, and gets the first one's result; per function. Once that is over,
// it is a new job.
func TestCoalescing(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	a, b := connect(t, address), connect(t, address)
	submit := func(p *peer, kind gearman.Kind, function, unique, workload string) string {
		p.send(kind, function, unique, workload)
		return p.want(gearman.JobCreated)
	}
	first := submit(a, gearman.SubmitJob, "f", "u", "1")
	for what, handle := range map[string]string{
		"another client":      submit(b, gearman.SubmitJob, "f", "u", "2"),
		"in the background":   submit(b, gearman.SubmitJobBg, "f", "u", "3"),
		"with other priority": submit(b, gearman.SubmitJobLow, "f", "u", "4"),
	} {
		if handle != first {
			t.Errorf("%s: %s, not %s", what, handle, first)
		}
	}
	others := []string{
		first, submit(a, gearman.SubmitJobBg, "g", "u", "1"), submit(a, gearman.SubmitJobBg, "f", "", "1"), submit(a, gearman.SubmitJobBg, "f", "", "1"),
		submit(a, gearman.SubmitJobBg, "f", "-", "1"), submit(a, gearman.SubmitJobBg, "f", "-", "2"),
	}
	if slices.Sort(others); len(slices.Compact(others)) != 6 {
		t.Errorf("jobs that are different: %s", others)
	}
	if again := submit(b, gearman.SubmitJobBg, "f", "-", "2"); !slices.Contains(others, again) {
		t.Errorf("the same workload is another job: %s", again)
	}
	runner := able(t, address, "f")
	w.mu.Lock()
	w.held = false
	w.mu.Unlock()
	w.run()
	if got := runner.grab(); got != first+"\x00f\x00u\x001" {
		t.Errorf("assigned: %q", got)
	}
	runner.send(gearman.WorkComplete, first, "done")
	for _, p := range []*peer{a, b, b} { // b has submitted it twice in the foreground
		p.want(gearman.WorkComplete, first, "done")
	}
	<-w.ends
	if again := submit(a, gearman.SubmitJobBg, "f", "u", "1"); again == first {
		t.Error("a job that is over was joined")
	}
	a.send(gearman.SubmitJob, "f", strings.Repeat("u", 65), "")
	a.want(gearman.Error, "ARGUMENT_TOO_LARGE")
}

// A submission that meets a job which the journal has ended and the table not yet waits for the table.
func TestUniqueIDOfAJobThatHasJustEnded(t *testing.T) {
	t.Parallel()
	shown := make(chan struct{})
	w, address := start(t, func(_ *Config, p *Parts) {
		p.Shown = func(uint64, int64) <-chan struct{} { return shown }
	})
	w.held = true
	p := connect(t, address)
	p.send(gearman.SubmitJobBg, "f", "u", "1")
	p.want(gearman.JobCreated, "H:node:1")
	w.front.Committed([]journal.Event{{Seq: 5, Job: 1, Payload: journal.Done{Result: "ok"}}})
	p.send(gearman.SubmitJobBg, "f", "u", "1")
	must.Get(w.db.Exec("UPDATE jobs SET status = 'done', unique_key = NULL WHERE id = 1"))(t)
	close(shown)
	if handle := p.want(gearman.JobCreated); handle == "H:node:1" {
		t.Error("it joined the job that is over")
	}
}

func TestLastClientGoes(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	stays, goes := connect(t, address), connect(t, address)
	goes.send(gearman.SubmitJob, "f", "alone", "")
	handle := goes.want(gearman.JobCreated)
	for _, p := range []*peer{stays, goes} {
		p.send(gearman.SubmitJob, "f", "shared", "")
		p.want(gearman.JobCreated)
	}
	goes.send(gearman.SubmitJob, "f", "wanted", "")
	goes.want(gearman.JobCreated)
	stays.send(gearman.SubmitJobBg, "f", "wanted", "")
	stays.want(gearman.JobCreated)
	must.Do(t, goes.conn.Close())
	wish := <-w.cancels
	if len(wish.IDs) != 1 || w.front.handle(wish.IDs[0]) != handle || !wish.Unstarted || !wish.Rows {
		t.Errorf("cancelled: %+v; only %s has lost its last client", wish, handle)
	}
}

// Who submits a job with the unique id of one that is being cancelled, because its last client is gone, does not join
// that one.
func TestNobodyJoinsAJobThatIsBeingCancelled(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	goes, comes := connect(t, address), connect(t, address)
	goes.send(gearman.SubmitJob, "f", "u", "1")
	goes.want(gearman.JobCreated, "H:node:1")
	goes.send(gearman.SubmitJob, "f", "other", "1") // the second cancellation waits for the first one
	goes.want(gearman.JobCreated, "H:node:2")
	cancelling := make(chan struct{})
	w.mayCancel = cancelling
	must.Do(t, goes.conn.Close())
	<-w.cancels // it is under way
	comes.send(gearman.SubmitJobBg, "f", "u", "2")
	comes.synced()
	close(cancelling)
	if handle := comes.want(gearman.JobCreated); handle == "H:node:1" {
		t.Error("it joined the job that is cancelled")
	}
}

// What ended before this start is shown by the table before anybody joins a row.
func TestWhatEndedBeforeTheStartIsShownFirst(t *testing.T) {
	t.Parallel()
	shown := make(chan struct{})
	w, address := start(t, func(_ *Config, p *Parts) { p.CaughtUp = shown })
	w.held = true
	must.Get(w.db.Exec("INSERT INTO jobs (id, target, time_created, status, workload, unique_key) VALUES (1, 'f', 1, 'running', '1', ?)", keyOf("f", "u", nil)))(t)
	p := connect(t, address)
	p.send(gearman.SubmitJobBg, "f", "u", "2")
	must.Get(w.db.Exec("UPDATE jobs SET status = 'done', unique_key = NULL WHERE id = 1"))(t)
	close(shown)
	if handle := p.want(gearman.JobCreated); handle == "H:node:1" {
		t.Error("it joined the job that is over")
	}
}

// What a worker has asked for, and has not got yet, is known not to have run; what it has got is unknown.
func TestWorkerIsLost(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	client := connect(t, address)
	runner := able(t, address, "f")
	client.send(gearman.SubmitJob, "f", "", "")
	handle := client.want(gearman.JobCreated)
	runner.grab()
	must.Do(t, runner.conn.Close())
	client.want(gearman.WorkFail, handle)
	if err := <-w.ends; !errors.Is(err, jobexec.ErrOutcomeUnknown) {
		t.Errorf("it ended with %v", err)
	}
	slow := connect(t, address)
	slow.send(gearman.CanDoTimeout, "f", "1")
	slow.synced()
	client.send(gearman.SubmitJob, "f", "", "")
	handle = client.want(gearman.JobCreated)
	slow.grab()
	client.want(gearman.WorkFail, handle)
	if err := <-w.ends; !errors.Is(err, jobexec.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "CAN_DO_TIMEOUT") {
		t.Errorf("it ended with %v", err)
	}
	slow.send(gearman.WorkComplete, handle, "late")
	slow.want(gearman.Error, "JOB_NOT_FOUND")
}

// A job that is cancelled between GRAB_JOB and JOB_ASSIGN was never sent, and its worker hears NO_JOB.
func TestCancelledBeforeItIsSent(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	runner := able(t, address, "f")
	client := connect(t, address)
	client.send(gearman.SubmitJob, "f", "", "")
	client.want(gearman.JobCreated, "H:node:1")
	process := must.Get(Beside(w.front, nil).Start(jobexec.Spec{Mode: jobexec.ModeGearman, Target: "f", Job: 1, Attempt: 1}))(t)
	runner.send(gearman.GrabJob)
	<-process.Begun()
	must.Do(t, process.Signal(15))
	<-process.Ended()
	process.(jobexec.Held).Proceed()
	runner.want(gearman.NoJob)
	if done, err := process.Outcome(); err != nil || done.Result != "fail" || done.Signal != "SIGTERM" {
		t.Errorf("%+v, %v", done, err)
	}
	if err := process.Signal(15); err == nil {
		t.Error("a signal reached a job that is over")
	}
	waits := must.Get(Beside(w.front, nil).Start(jobexec.Spec{Mode: jobexec.ModeGearman, Target: "f", Job: 1, Attempt: 1}))(t)
	waits.(interface{ Withdraw() }).Withdraw()
	<-waits.Ended()
	var not *jobexec.NotStartedError
	if _, err := waits.Outcome(); !errors.As(err, &not) {
		t.Errorf("a start that was taken back ended with %v", err)
	}
}

// A long workload is read when a worker has asked for its job, which may go meanwhile, or be cancelled.
func TestLongWorkload(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	long := strings.Repeat("x", longWorkload+1)
	client := connect(t, address)
	client.send(gearman.SubmitJobBg, "f", "u", long)
	client.want(gearman.JobCreated, "H:node:1")
	var runner *peer
	asked := func() *run {
		if runner == nil {
			runner = able(t, address, "f")
		}
		r := w.front.executor.start(jobexec.Spec{Target: "f", Job: 1, Attempt: 1})
		runner.send(gearman.PreSleep)
		runner.want(gearman.Noop)
		if r.mu.Lock(); len(r.workload.Bytes) > 0 || r.long != len(long) {
			t.Errorf("%d bytes are there before a worker has asked, of %d", len(r.workload.Bytes), r.long)
		}
		r.mu.Unlock()
		runner.send(gearman.GrabJobUniq)
		<-r.Begun()
		return r
	}
	ended := func(r *run) (journal.Done, bool) {
		<-r.Ended()
		done, err := r.Outcome()
		var not *jobexec.NotStartedError
		return done, errors.As(err, &not)
	}

	r := asked()
	r.Proceed()
	if got := runner.want(gearman.JobAssignUniq, "H:node:1", "f", "u"); got != long {
		t.Errorf("a workload of %d bytes", len(got))
	}
	runner.send(gearman.WorkComplete, "H:node:1", "")
	if done, _ := ended(r); done.Result != "ok" {
		t.Errorf("it ended as %+v", done)
	}

	r = asked()
	must.Do(t, r.Signal(15))
	r.loadLong(r.long)
	runner.want(gearman.NoJob)
	if done, _ := ended(r); done.Signal != "SIGTERM" {
		t.Errorf("what was cancelled ended as %+v", done)
	}
	runner.synced()

	r = asked()
	must.Get(w.db.Exec("DELETE FROM jobs"))(t)
	r.Proceed()
	runner.want(gearman.NoJob)
	if done, not := ended(r); !not {
		t.Errorf("what can't be read ended as %+v", done)
	}

	client.send(gearman.SubmitJobBg, "f", "u", long)
	client.want(gearman.JobCreated)
	must.Get(w.db.Exec("UPDATE jobs SET id = 1"))(t)
	r = asked()
	must.Do(t, runner.conn.Close())
	if done, not := ended(r); !not {
		t.Errorf("what a worker was not sent ended as %+v", done)
	}
	r.loadLong(r.long)
}

func TestDelayedJob(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	p := connect(t, address)
	p.send(gearman.SubmitJobEpoch, "f", "", "4000000000", "later")
	p.want(gearman.JobCreated, "H:node:1")
	p.send(gearman.SubmitJobEpoch, "f", "", "5", "now")
	p.want(gearman.JobCreated, "H:node:2")
	p.send(gearman.SubmitJobEpoch, "f", "", "soon", "")
	p.want(gearman.Error, "INVALID_ARGUMENT")
	p.send(gearman.SubmitJobEpoch, "f", "", "4102444800000", "in milliseconds")
	p.want(gearman.Error, "INVALID_ARGUMENT")
	if got := w.row(1, "status || run_at") + w.row(2, "status || run_at"); got != "delayed4000000000waiting0" {
		t.Errorf("rows: %s", got)
	}
}

// Each command says what gearmand 1.1.20 says; a line ends with LF or CRLF.
func TestTextCommands(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	client, admin := connect(t, address), connect(t, address)
	for i, kind := range []gearman.Kind{gearman.SubmitJobBg, gearman.SubmitJobHighBg, gearman.SubmitJob} {
		client.send(kind, "f", "u"+strconv.Itoa(i), "")
		client.want(gearman.JobCreated)
	}
	runner := able(t, address, "g")
	runner.send(gearman.SetClientID, "a worker\n")
	runner.synced()
	for _, c := range []struct{ command, want string }{
		{"status\n", "f\t3\t0\t0\ng\t0\t0\t1\n.\n"},
		{"prioritystatus\r\n", "f\t1\t2\t0\t0\ng\t0\t0\t0\t1\n.\n"},
		{"STATUS\r\n", "f\t3\t0\t0\ng\t0\t0\t1\n.\n"},
		{"workers\n", "1 127.0.0.1 - :\n2 127.0.0.1 - :\n3 127.0.0.1 a worker_ : g\n.\n"},
		{"show jobs\n", "H:node:1\t0\t0\t1\nH:node:2\t0\t0\t1\nH:node:3\t0\t0\t0\n.\n"},
		{"show unique jobs\n", "u0\nu1\nu2\n.\n"},
		{"show\n", "ERR UNKNOWN_COMMAND Unknown+server+commandshow\r\n"},
		{"show all\n", "ERR UNKNOWN_SHOW_ARGUMENTS\r\n"},
		{"create function h\n", "OK\r\n"},
		{"create function\n", "ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+create\r\n"},
		{"create function two words\n", "ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+create\r\n"},
		{"drop function h\n", "OK\r\n"},
		{"drop function h\n", "ERR function not found\r\n"},
		{"drop function f\n", "ERR there are jobs of it, which would be lost\r\n"},
		{"drop function g\n", "ERR there are still connected workers or executing clients\r\n"},
		{"drop\n", "ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+drop\r\n"},
		{"cancel job H:node:10\n", "ERR UNKNOWN_JOB\r\n"},
		{"cancel job H:other:1\n", "ERR UNKNOWN_JOB\r\n"},
		{"cancel job H:node:3\n", "OK\r\n"},
		{"cancel\n", "ERR UNKNOWN_COMMAND Unknown+server+commandcancel\r\n"},
		{"cancel all H:node:3\n", "ERR UNKNOWN_ERROR\r\n"},
		{"maxqueue f 2\n", "OK\r\n"},
		{"maxqueue nowhere 2\n", "OK\r\n"},
		{"maxqueue\n", "ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+maxqueue\r\n"},
		{"version\n", "OK 1.2.3\n"},
		{"verbose\n", "OK ERROR\n"},
		{"shutdown\n", "ERR UNKNOWN_COMMAND Unknown+server+commandshutdown\r\n"},
		{"\n", "ERR UNKNOWN_COMMAND Unknown+server+command\r\n"},
	} {
		admin.says(c.command, c.want)
	}
	if wish := <-w.cancels; !slices.Equal(wish.IDs, []int64{3}) {
		t.Errorf("cancelled: %+v", wish)
	}
	client.send(gearman.SubmitJobBg, "f", "u9", "")
	client.want(gearman.WorkFail, "H:node:3") // which was cancelled
	client.want(gearman.Error, "QUEUE_ERROR")
	client.send(gearman.SubmitJobBg, "f", "u1", "")
	client.want(gearman.JobCreated, "H:node:2") // joining is no more
}

func TestWhatClosesAConnection(t *testing.T) {
	t.Parallel()
	_, address := start(t, nil)
	for name, raw := range map[string]string{
		"a browser":          "POST / HTTP/1.1\r\nHost: localhost\r\n\r\nshutdown\r\n",
		"another method":     "BREW /\n",
		"TLS":                "\x16\x03\x01\x02\x00\x01\ncreate function f\n",
		"an unknown magic":   "\x00XXX\x00\x00\x00\x10\x00\x00\x00\x00",
		"an unknown type":    "\x00REQ\x00\x00\x00\x63\x00\x00\x00\x00",
		"a line without end": strings.Repeat("x", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := connect(t, address)
			_, _ = io.WriteString(p.conn, raw)
			if rest, _ := io.ReadAll(p.r); len(rest) > 0 {
				t.Errorf("it was answered %q", rest)
			}
		})
	}
	p := connect(t, address)
	p.send(gearman.SubmitJobSched, "f", "u", "1", "2", "3", "4", "5", "w")
	p.want(gearman.Error, "INVALID_COMMAND")
	p.send(gearman.AllYours)
	p.want(gearman.Error, "INVALID_COMMAND")
	must.Get(io.WriteString(p.conn, "\x00RES\x00\x00\x00\x09\x00\x00\x00\x00"))(t)
	p.want(gearman.Error, "INVALID_MAGIC")
	p.send(gearman.CanDo, "f\n")
	p.want(gearman.Error, "INVALID_FUNCTION_NAME")
	p.synced()
}

// What somebody may, its scope and targets say.
func TestRights(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ scope, targets, refused string }{
		{"submit", "f", "can_do get_status cancel create status"},
		{"status", "*", "submit can_do cancel create"},
		{"worker", "f", "submit get_status cancel create status"},
		{"run", "*", "can_do create"},
		{"admin", "f", "can_do"},
		{"admin", "g", "submit can_do create"},
	} {
		t.Run(c.scope+" "+c.targets, func(t *testing.T) {
			t.Parallel()
			w, address := start(t, func(_ *Config, p *Parts) {
				scope := must.Get(principal.ParseScope(c.scope))(t)
				targets := must.Get(principal.ParseTargets(c.targets))(t)
				p.Known = func(peer jobnet.Peer) *principal.Session {
					return &principal.Session{Name: "ann", Address: peer.Address, Scope: scope, Targets: targets}
				}
			})
			w.held = true
			p := connect(t, address)
			var refused []string
			ask := func(what string, do func() (ok bool)) {
				if !do() {
					refused = append(refused, what)
				}
			}
			answer := func(kind gearman.Kind, args ...string) func() bool {
				return func() bool {
					p.send(kind, args...)
					head := must.Get(p.r.Peek(12))(t)
					body := int(binary.BigEndian.Uint32(head[8:]))
					must.Get(p.r.Discard(12 + body))(t)
					return gearman.Kind(binary.BigEndian.Uint32(head[4:])) != gearman.Error
				}
			}
			says := func(command string) func() bool {
				return func() bool {
					must.Get(io.WriteString(p.conn, command))(t)
					line := must.Get(p.r.ReadString('\n'))(t)
					for rest := line; rest != ".\n" && !strings.HasPrefix(line, "OK") && !strings.HasPrefix(line, "ERR"); {
						rest = must.Get(p.r.ReadString('\n'))(t)
					}
					return !strings.Contains(line, "ann may not ask")
				}
			}
			ask("submit", answer(gearman.SubmitJobBg, "f", "", ""))
			ask("can_do", func() bool {
				p.send(gearman.CanDo, "f")
				p.send(gearman.EchoReq, "")
				ok := answer(gearman.EchoReq, "")()
				if !ok {
					must.Get(p.r.Discard(12))(t)
				}
				must.Get(p.r.Discard(12))(t)
				return ok
			})
			ask("get_status", answer(gearman.GetStatus, "H:node:1"))
			ask("cancel", says("cancel job H:node:7\n"))
			ask("create", says("create function f\n"))
			ask("status", says("status\n"))
			if got := strings.Join(refused, " "); got != c.refused {
				t.Errorf("refused: %s; not: %s", got, c.refused)
			}
		})
	}
}

// Without a credential, who comes from this host commands nothing where there are credentials, and who comes from
// elsewhere does not get in.
func TestWhoMayConnect(t *testing.T) {
	t.Parallel()
	_, address := start(t, func(_ *Config, p *Parts) { p.Known = func(jobnet.Peer) *principal.Session { return nil } })
	p := connect(t, address)
	p.says("status\n", ".\n")
	p.send(gearman.SubmitJobBg, "f", "", "")
	p.want(gearman.JobCreated)
	must.Get(io.WriteString(p.conn, "create function f\n"))(t)
	if line := must.Get(p.r.ReadString('\n'))(t); !strings.Contains(line, "needs the scope admin") {
		t.Errorf("create function: %q", line)
	}
}

// Functions become targets, with two slots for each worker that is connected.
func TestFunctionsBecomeTargets(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	until := func(want int) {
		t.Helper()
		for {
			select {
			case n := <-w.slots:
				if n == want {
					return
				}
			case <-time.After(time.Minute):
				t.Fatalf("there are never %d slots", want)
			}
		}
	}
	first, _, third := able(t, address, "f"), able(t, address, "f"), able(t, address, "f")
	until(6)
	first.send(gearman.CantDo, "f")
	until(4)
	third.send(gearman.ResetAbilities)
	until(2)
	third.send(gearman.CanDo, "null")
	third.want(gearman.Error, "INVALID_FUNCTION_NAME")
}

func TestHandles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"n", strings.Repeat("n", 100)} {
		f := New(Config{Name: name})
		for _, id := range []int64{1, 1 << 62} {
			if h := f.handle(id); len(h) > 63 || f.idOf(h) != id || f.idOf(h+".2") != 0 {
				t.Errorf("%s is of job %d, not %d", h, f.idOf(h), id)
			}
		}
		for _, odd := range []string{"", "H:", "H:x:1", "1", "H:n:01", "H:n:-"} {
			if id := f.idOf(odd); id != 0 {
				t.Errorf("%q is of job %d", odd, id)
			}
		}
	}
}

// Where nothing is inserted, a workload names a row.
func TestNamedRows(t *testing.T) {
	t.Parallel()
	rows := []journal.Row{{Job: 1, Target: "f", Status: journal.RowManual}, {Job: 2, Target: "f", Status: journal.RowWaiting}}
	var w *worker
	w, address := start(t, func(c *Config, p *Parts) {
		c.Table = nil
		p.Rows = func(_ context.Context, ids []int64) ([]journal.Row, error) {
			return slices.DeleteFunc(slices.Clone(rows), func(r journal.Row) bool { return !slices.Contains(ids, r.Job) }), nil
		}
		p.Worker = manual{p.Worker}
	})
	w.targets["f"] = 1
	p := connect(t, address)
	p.send(gearman.SubmitJob, "f", "", "1")
	p.want(gearman.JobCreated, "H:node:1")
	p.want(gearman.WorkComplete, "H:node:1", "by hand")
	p.send(gearman.SubmitJobBg, "f", "", "2")
	p.want(gearman.JobCreated, "H:node:2")
	for _, odd := range [][]string{{"f", "", "3"}, {"f", "", "a workload"}, {"g", "", "1"}, {"f", "", "2"}, {"f", "", ""}} {
		p.send(gearman.SubmitJob, odd...)
		p.want(gearman.Error, "no_such_row")
	}
	p.send(gearman.GetStatus, "H:node:2")
	p.want(gearman.StatusRes, "H:node:2", "1", "0", "0", "0")
}

// manual runs rows by hand.
type manual struct{ Worker }

func (m manual) GivenBack([]string) {}

func (m manual) RunManual(_ context.Context, ids []int64, _ string) (answer jobexec.Answer[jobexec.Result], err error) {
	answer.Jobs = map[int64]jobexec.Result{ids[0]: {Result: "ok", Stdout: cmp.Or("by hand")}}
	return answer, nil
}

// A client that waits for several jobs gets all of their results, however long they are together.
func TestLongResultsAtOnce(t *testing.T) {
	t.Parallel()
	w, address := start(t, func(c *Config, _ *Parts) { c.MaxPacket = 32 << 20 })
	client, runner := connect(t, address), able(t, address, "f")
	long := strings.Repeat("x", 24<<20)
	for i := range 3 { // whose answers the client takes in another order than it asks
		client.send(gearman.SubmitJob, "f", "", "")
		if i == 0 {
			client.want(gearman.JobCreated, "H:node:1")
		}
		handle, _, _ := strings.Cut(runner.grab(), "\x00")
		runner.send(gearman.WorkComplete, handle, long)
		if err := <-w.ends; err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []gearman.Kind{
		gearman.WorkComplete, gearman.JobCreated, gearman.WorkComplete, gearman.JobCreated, gearman.WorkComplete,
	} {
		if got := client.want(kind); kind == gearman.WorkComplete && len(got) != len(long) {
			t.Errorf("a result of %d bytes", len(got))
		}
	}
}

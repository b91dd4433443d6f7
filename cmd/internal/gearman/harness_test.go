package gearman

import (
	"bufio"
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
	written   map[int64]string // by jobs that launchers run
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

func (w *worker) Output(_ context.Context, g jobexec.Glance) (out jobexec.JobOutput, found bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text, found := w.written[g.Job]
	out = jobexec.JobOutput{Attempt: 1, Started: true}
	out.Written[0] = jobexec.PartOf(journal.Output{Kept: []byte(text)}, g.From[0], g.Most)
	return out, found, nil
}

// start serves on a free port, with a table of its own.
func start(t *testing.T, change func(*Config, *Parts)) (w *worker, address string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.db")
	table := must.Get(sqlite.New(sqlite.Config{Path: path, Uses: store.TimeColumns(), Submits: true}))(t)
	t.Cleanup(func() { _ = table.Close() })
	must.Do(t, table.Check(t.Context()))
	w = &worker{
		t: t, targets: map[string]int{}, started: map[int64]jobexec.Process{}, attempts: map[int64]int{}, written: map[int64]string{},
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

package simulation

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/master"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store"
)

// scenario is what a run is made of. With the same one the same things are drawn.
type scenario struct {
	seed    uint64
	workers int
	jobs    int
	targets int
	lords   int           // masters
	slots   int           // of each target of a worker
	length  time.Duration // of a job, on average
	each    time.Duration // between two jobs that the application inserts, on average
	faults  []string      // the kinds, see kinds; none: all is well

	prefetch int // see exec.Config
}

// world is a run.
type world struct {
	scenario
	tasks   sync.WaitGroup
	server  *server
	network *network
	all     []*machine
	masters []*lord
	healed  chan struct{} // closed when no more faults happen

	mu         sync.Mutex
	random     *rand.Rand
	events     hash.Hash64 // of everything that happened at the table, in the journals, at the runners
	counted    int
	starts     map[int64][]string // tokens by job
	unknown    map[int64]bool     // jobs of which nobody knows how they ended
	waits      []time.Duration    // from insert to start
	polls      int
	releases   int
	violations []string
	happened   map[string]int // faults by kind

	writing sync.Mutex
	told    []byte // see trace
}

func newWorld(s scenario) *world {
	s.targets = min(s.targets, s.workers)
	w := &world{
		scenario: s, random: rand.New(rand.NewPCG(s.seed, 1)), events: fnv.New64a(), healed: make(chan struct{}),
		starts: map[int64][]string{}, unknown: map[int64]bool{}, happened: map[string]int{},
	}
	w.server, w.network = newServer(w), &network{masters: map[string]*listener{}, stalled: map[string]time.Time{}}
	for i := range s.lords {
		w.masters = append(w.masters, &lord{w: w, address: fmt.Sprintf("master-%d:7080", i)})
	}
	for i := range s.workers {
		m := &machine{w: w, name: fmt.Sprintf("node-%d", i), history: newHistory(w), targets: map[string]int{}}
		m.runner = &runner{m: m, children: map[start]*child{}}
		for n := range min(s.targets, 2) {
			m.targets[w.target(i+n)] = s.slots
		}
		w.all = append(w.all, m)
	}
	return w
}

func (w *world) target(n int) string { return fmt.Sprintf("target-%d", n%w.targets) }

// after does something later.
func (w *world) after(delay time.Duration, do func()) {
	w.tasks.Go(func() {
		pass(delay)
		do()
	})
}

// upTo draws a time.
func (w *world) upTo(most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.random.Int64N(int64(most)))
}

func (w *world) coin() bool { return w.upTo(2) == 0 }

// chance tells whether a fault of a kind happens at this step of somebody's work.
func (w *world) chance(kind string, likely float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.faults, kind) || isClosed(w.healed) || w.random.Float64() >= likely {
		return false
	}
	w.happened[kind]++
	return true
}

// mayKill kills a process at this step of its work, sometimes.
func (w *world) mayKill(p *process, likely float64) {
	if w.chance("kills", likely) {
		p.kill()
	}
	if w.chance("power", likely/4) {
		p.cutPower()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// trace is a file for everything that happens; "": none.
var trace = os.Getenv("SIM_TRACE")

// Write takes in a line of a log, or of what has happened. It is written when all is over: before, that would
// change what happens.
func (w *world) Write(line []byte) (int, error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.told = fmt.Appendf(w.told, "%s %s", time.Now().Format("15:04:05.000000"), line)
	return len(line), nil
}

// note takes one more thing that has happened into the run's hash.
func (w *world) note(what string, job int64, more ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counted++
	_ = binary.Write(w.events, binary.LittleEndian, []int64{time.Now().UnixNano(), job})
	_, _ = w.events.Write([]byte(what + strings.Join(more, " ")))
	if trace != "" {
		fmt.Fprintln(w, what, job, more)
	}
}

// violated notes that something is not as it was promised.
func (w *world) violated(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// lasts is how long a job runs.
func (w *world) lasts(job int64) time.Duration {
	of := rand.New(rand.NewPCG(w.seed, uint64(job)))
	return time.Duration(of.ExpFloat64() * float64(w.length))
}

// started is told of each start of a process. By then its journal and its row say that it runs.
func (w *world) started(m *machine, spec jobexec.Spec) {
	var known journal.Job
	m.history.View(func(s *journal.State) { known = s.Job(spec.Job) })
	w.server.mu.Lock()
	row, since := w.server.memory.Rows[spec.Job].Row, w.server.inserted[spec.Job]
	w.server.mu.Unlock()
	if known.Status != journal.StatusStarting || known.Token != spec.Token {
		w.violated("job %d is started with %s, and the journal of %s has it %s with %s", spec.Job, spec.Token, m.name, known.Status, known.Token)
	}
	if row.Status != journal.RowRunning || row.Owner != spec.Token {
		w.violated("job %d is started by %s with %s, and its row is %s with %q", spec.Job, m.name, spec.Token, row.Status, row.Owner)
	}
	w.note("started", spec.Job, m.name, spec.Token)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starts[spec.Job] = append(w.starts[spec.Job], spec.Token)
	w.waits = append(w.waits, time.Since(since))
}

// machine is a worker's host: what outlives its process.
type machine struct {
	w       *world
	name    string
	targets map[string]int
	history *history
	runner  *runner
	cuts    []time.Time // of its power

	mu      sync.Mutex
	process *process // the newest
	stopped bool     // at the end of the run
}

// process is a process of a worker.
type process struct {
	*machine
	dead    chan struct{} // closed when it is killed
	once    sync.Once
	session *session
	worker  *jobexec.Worker
	mirror  *store.Mirror
	agents  []*master.Agent
	stop    context.CancelFunc // in order
	ended   chan struct{}      // closed when nothing of it is left
}

func (p *process) isDead() bool { return isClosed(p.dead) }

// boot starts the worker's next process, unless somebody else has done so after the same one.
func (m *machine) boot(after *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped || m.process != after {
		return
	}
	m.history.reopen()
	p := &process{machine: m, dead: make(chan struct{}), ended: make(chan struct{})}
	p.session = &session{server: m.w.server, p: p, name: m.name}
	ctx, stop := context.WithCancel(context.Background())
	p.build()
	m.process, p.stop = p, stop
	m.w.tasks.Go(func() {
		defer close(p.ended)
		p.run(ctx)
	})
}

// build puts the parts of a worker together as jobd does.
func (p *process) build() {
	journal, hands, log := &book{history: p.history, p: p}, &hands{runner: p.runner, p: p}, slog.New(slog.DiscardHandler)
	if trace != "" {
		log = slog.New(slog.NewTextHandler(p.w, nil)).With("worker", p.name)
	}
	givenBack := func(targets []string) {
		p.worker.GivenBack(targets)
		for _, agent := range p.agents {
			agent.Poke(targets)
		}
	}
	p.mirror = store.NewMirror(store.Config{
		Source: journal, Bookmark: journal, Table: p.session, Logger: log,
		OnReturn: func() { p.worker.PollAll() }, OnGivenBack: givenBack,
	})
	p.worker = jobexec.New(jobexec.Config{
		Name: p.name, Version: "simulated", BootID: "boot", Host: p.name, Targets: p.targets,
		Launcher: jobexec.Launcher{Words: []string{"/job", "{id}"}},
		Prefetch: p.w.prefetch, FetchLimit: 100, PollInterval: 30 * time.Second, MaxAttempts: 3, LostAfter: 5 * time.Minute,
		ShutdownTimeout: 30 * time.Second, Handover: true,
		Recorder: journal, Table: p.session, Mirror: p.mirror, Runner: hands, Keeper: hands, Watcher: hands,
		Pools: unneeded{}, Requester: unneeded{}, Observer: unneeded{}, Disk: unneeded{},
		Retry:  func(what string, about ...any) jobexec.Retry { return store.NewRetry(log, what, about...) },
		Logger: log, OnTargets: func() {}, OnRetried: givenBack, Knows: p.history.knows,
		LastStart: func(string, time.Time) (never time.Time) { return never },
		LastWords: noWords, Doubtful: noDoubts,
		WasManual: func(context.Context, int64) bool { return false },
	})
	handlers := api.Gate(map[string]jobnet.Handler{api.Poll.Name: p.poll}, func(jobnet.Request, error) {})
	for _, lord := range p.w.masters {
		p.agents = append(p.agents, master.NewAgent(master.AgentConfig{
			Address: lord.address, Name: p.name, Instance: p.name + " at " + lord.address, Targets: p.worker.TargetNames,
			OnRegistered: p.worker.PollAll, Handlers: handlers, Leaves: func() bool { return true }, Logger: log,
			Dial: func(ctx context.Context, address string) (net.Conn, error) {
				return p.w.network.dial(ctx, address, p.dead)
			},
		}))
	}
}

func noWords() []journal.Payload          { return nil }
func noDoubts() map[int64]journal.Payload { return nil }

// poll answers a master.
func (p *process) poll(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
	of, err := api.Poll.Read(request.From, request.Fields())
	if err != nil {
		return nil, err
	}
	p.w.mu.Lock()
	p.w.polls++
	p.w.mu.Unlock()
	return api.Done{}, p.worker.Poll(of.Targets)
}

// run works until ctx ends, and what is under way is handed over, or until the process is killed.
func (p *process) run(ctx context.Context) {
	if err := p.worker.Open(1); err != nil {
		if !p.isDead() {
			p.w.violated("%s does not open: %v", p.name, err)
		}
		return
	}
	rest, end := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := p.mirror.Run(rest); err != nil && !p.isDead() {
			p.w.violated("the mirror of %s ends: %v", p.name, err)
		}
	})
	for _, agent := range p.agents {
		parts.Go(func() { _ = agent.Run(rest) })
	}
	if err := p.worker.Run(ctx); err != nil && !p.isDead() {
		p.w.violated("%s ends: %v", p.name, err)
	}
	timer := time.NewTimer(10 * time.Second)
	newest := uint64(0)
	p.history.View(func(s *journal.State) { newest = s.Seq })
	select {
	case <-p.mirror.Shown(newest, 0):
	case <-timer.C:
	case <-p.dead:
	}
	timer.Stop()
	end()
	parts.Wait()
	p.session.cut(0)
}

// kill ends the process at this moment; the next one begins some time later.
func (p *process) kill() {
	p.once.Do(func() {
		close(p.dead)
		p.w.note("killed", 0, p.name)
		p.w.tasks.Go(func() {
			_ = p.worker.Note(journal.Closed{}) // learns that the journal takes no more
			p.stop()
			<-p.ended
			pass(p.w.upTo(20 * time.Second))
			p.boot(p)
		})
	})
}

// cutPower kills the process, the runner and its jobs.
func (p *process) cutPower() {
	p.mu.Lock()
	p.cuts = append(p.cuts, time.Now())
	p.mu.Unlock()
	p.kill()
	p.w.tasks.Go(p.runner.cutPower) // who asks may hold the runner
}

// restart ends the process in order, and begins the next one.
func (p *process) restart() {
	p.stop()
	<-p.ended
	p.boot(p)
}

// lord is a master, and its address.
type lord struct {
	w       *world
	address string
	stop    func()
}

// rule begins a master's process that knows nobody.
func (l *lord) rule() {
	m := master.New(master.Config{PokeThrottle: 500 * time.Millisecond})
	server := jobnet.NewServer(jobnet.ServerConfig{Handlers: m.Handlers()})
	ctx, cancel := context.WithCancel(context.Background())
	listener := l.w.network.listen(l.address)
	var parts sync.WaitGroup
	parts.Go(func() { _ = server.Serve(ctx, listener) })
	parts.Go(func() { _ = m.Run(ctx) })
	l.stop = func() {
		l.w.network.kill(l.address)
		cancel()
		_ = server.Shutdown(ctx)
		parts.Wait()
	}
}

// application inserts rows and pokes a master for them, for as long as there are rows to insert.
func (w *world) application() {
	targets := max(1, w.targets)
	batch := max(1, w.jobs/2000) // rows for one poke
	for id := int64(1); id <= int64(w.jobs); {
		pass(time.Duration(1+batch) * w.each)
		target := w.target(int(w.upTo(time.Duration(targets))))
		var rows []int64
		for range 1 + w.upTo(time.Duration(2*batch)) {
			if id <= int64(w.jobs) {
				rows, id = append(rows, id), id+1
			}
		}
		w.server.insert(target, rows...)
		if w.chance("pokes", 0.05) {
			continue
		}
		w.tasks.Go(func() { w.poke(target) })
		if w.chance("pokes", 0.05) {
			w.tasks.Go(func() { w.poke(target) })
		}
	}
}

// poke asks one master, and where that does not answer the next.
func (w *world) poke(target string) {
	for n, first := 0, int(w.upTo(time.Hour)); n < len(w.masters); n++ {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err := w.pokeAt(ctx, w.masters[(first+n)%len(w.masters)].address, target)
		if cancel(); err == nil {
			return
		}
	}
}

func (w *world) pokeAt(ctx context.Context, address, target string) error {
	link, err := jobnet.Connect(ctx, address, jobnet.LinkConfig{Dial: func(ctx context.Context, address string) (net.Conn, error) {
		return w.network.dial(ctx, address, nil)
	}})
	if err != nil {
		return err
	}
	w.tasks.Go(func() { _ = link.Run(context.Background()) })
	defer link.Close()
	_, err = link.Request(ctx, api.Poke.Name, api.Targets{Targets: []string{target}})
	return err
}

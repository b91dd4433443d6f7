package main

import (
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/signals"
	"jobd/exec/runner/host"
	"jobd/exec/runner/proc"
)

// runnerCommand is the word that makes jobd a runner. Only jobd itself uses it.
const runnerCommand = "runner"

// runnerProcessors are enough for two starts, which hold one each, and all the rest. More of them
// only wake each other.
const runnerProcessors = 3

// serveRunner is the runner process: no configuration, no network, no database, only jobs. It ends
// when it has none and no worker is connected.
func serveRunner() error {
	// A handler, not SIG_IGN, which jobs would inherit: a log that nobody reads must not end the
	// runner.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE, unix.SIGHUP, unix.SIGINT)
	signal.Reset(unix.SIGTERM) // main has caught it, for a worker
	debug.SetGCPercent(runnerGCPercent)
	defer runtime.KeepAlive(make([]byte, runnerUntouched))
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), runnerProcessors))
	return host.Serve(slog.New(slog.NewTextHandler(os.Stderr, nil)))
}

// What ps, top, ss and the kernel's log call these processes. Both are executed as /proc/self/exe, by
// which they would all be "exe". The runner's name has no jobd in it, so that pkill jobd, which ends
// the worker, does not end its runner, too.
const (
	workerComm = "jobd"
	runnerComm = "job-runner"
)

func init() {
	name := workerComm
	if len(os.Args) > 1 && os.Args[1] == runnerCommand {
		name = runnerComm
	}
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0) // the process is its own to write to until it hides from its jobs
}

// relaxTimers starts this program anew, in the same process, with timers that may ring late: see
// proc.LateTimers. The runtime's monitor thread is there before main is, and only what a thread
// starts inherits its timer slack. Where that can't be done the worker goes on as it is.
func relaxTimers(args, environ []string) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || slack >= proc.LateTimers {
		return
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, proc.LateTimers, 0, 0, 0); err != nil {
		return
	}
	// Some schedulers keep what they had: then the program would start anew again and again.
	if slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || slack < proc.LateTimers {
		return
	}
	if signals.Waiting() { // the program is to stop
		return
	}
	_ = proc.PassCapabilities(func() error { return signals.Become("/proc/self/exe", args, environ) })
}

// Output is the one thing that can fill a worker's memory, and what is left of it is
// mostly garbage: copies on their way into the journal and the table. So the collector is told to
// work harder once the process is larger than what it needs at a time.
const (
	memoryBase    = 20 << 20  // a worker without output
	memoryCopies  = 4         // of a largest output: fetched, journalled, as text, as a statement
	memorySlot    = 32 << 10  // a running job
	memoryReading = 128 << 20 // a client that reads the journal through the worker
	memoryLink    = 16 << 10  // a connection, idle
	memoryWeb     = 8 << 20   // scrapes, and what they tell
)

// workerGCPercent lets a worker grow by some 6 MB before the collector comes. It holds 1 to 2 MB, so
// that by Go's usual rule it would be collected 80 times a second under load. More than this gains
// little and takes memory. The limit holds where more is held.
const workerGCPercent = 200

// linkStep is by how many connections the limit follows: each change of it stops the program for a
// moment.
const linkStep = 256

// memory is where the collector holds the worker. It is no hard limit: what is in use is never
// refused, but the collector would work without end to free it.
type memory struct {
	mu    sync.Mutex
	limit int64 // without connections
	links int   // connections that there is room for
}

// limitMemory holds the worker near what its configuration needs.
func limitMemory(c config) *memory {
	slots := 0
	for _, n := range c.targets {
		slots += n
	}
	debug.SetGCPercent(workerGCPercent)
	m := &memory{}
	if c.HTTP.On() {
		m.limit = memoryWeb
	}
	m.add(memoryBase + memoryCopies*int64(c.jobs.maxOutputBuffer) + int64(slots)*memorySlot)
	return m
}

func (m *memory) add(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit += bytes
	m.set()
}

// set sets the collector's limit. Callers must hold m.mu.
func (m *memory) set() { debug.SetMemoryLimit(m.limit + int64(m.links)*memoryLink) }

// linked makes room for that many connections.
func (m *memory) linked(open int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if open > m.links || open <= m.links-2*linkStep {
		m.links = (open + linkStep) / linkStep * linkStep
		m.set()
	}
}

// reading makes room for a reader of the journal, until the function it gives is called.
func (m *memory) reading() (done func()) {
	m.add(memoryReading)
	return func() { m.add(-memoryReading) }
}

// runnerGCPercent keeps the runner, which holds the output of all jobs that run, near what it
// holds. Where that is next to nothing the collector would run for each few hundred jobs: what is
// held besides has it wait for 3 MB of garbage. Nobody writes to that, so it takes no memory.
const (
	runnerGCPercent = 25
	runnerUntouched = 12 << 20
)

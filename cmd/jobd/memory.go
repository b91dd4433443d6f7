package main

import (
	"runtime/debug"
	"sync"
)

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
	m.add(memoryBase + memoryCopies*c.jobs.maxOutputBuffer + int64(slots)*memorySlot)
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

package main

import "runtime/debug"

// Output is the one thing that can fill a worker's memory, and what is left of it is
// mostly garbage: copies on their way into the journal and the table. So the collector is told to
// work harder once the process is larger than what it needs at a time.
const (
	memoryBase   = 24 << 20 // a worker without output
	memoryCopies = 4        // of a largest output: fetched, journalled, as text, as a statement
	memorySlot   = 32 << 10 // a running job
)

// limitMemory makes the collector hold the worker near what its configuration needs. It is no
// hard limit: what is in use is never refused.
func limitMemory(c config) {
	slots := 0
	for _, n := range c.targets {
		slots += n
	}
	debug.SetMemoryLimit(memoryBase + memoryCopies*c.run.maxOutputBuffer + int64(slots)*memorySlot)
}

// runnerGCPercent keeps the runner, which holds the output of all jobs that run, near what it holds.
const runnerGCPercent = 25

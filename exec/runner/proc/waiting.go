package proc

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Processors tells whether this host's processors have enough to do. The zero value is ready to use, and
// safe for concurrent use.
type Processors struct {
	once  sync.Once
	file  int // /proc/loadavg; -1: there is none
	count int // processors
}

// Waiting is how many threads of the whole host wait for a processor at this moment, the one that asks
// being counted among those that have one; 0 where that is not known.
func (p *Processors) Waiting() int {
	p.once.Do(p.open)
	var text [64]byte
	n, err := unix.Pread(p.file, text[:], 0)
	if err != nil {
		return 0
	}
	runnable, ok := runnableOf(text[:n])
	if !ok {
		return 0
	}
	return max(0, runnable-p.count)
}

func (p *Processors) open() {
	var err error
	if p.file, err = unix.Open("/proc/loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		p.file = -1
	}
	p.count = online()
}

// runnableOf is the number of threads that have a processor or wait for one: what stands before the slash
// in "0.20 0.18 0.12 3/80 11206".
func runnableOf(loadavg []byte) (n int, ok bool) {
	fields := bytes.Fields(loadavg)
	if len(fields) < 4 {
		return 0, false
	}
	runnable, _, _ := bytes.Cut(fields[3], []byte("/"))
	n, err := strconv.Atoi(string(runnable))
	return n, err == nil
}

// online is how many processors the host has. Those that this process may use can be fewer.
func online() int {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return runtime.NumCPU()
	}
	if n, ok := listed(text); ok {
		return max(n, runtime.NumCPU())
	}
	return runtime.NumCPU()
}

// listed counts what a list as "0-3,8,10-11" names.
func listed(list []byte) (n int, ok bool) {
	for part := range bytes.SplitSeq(bytes.TrimSpace(list), []byte(",")) {
		first, last, isRange := bytes.Cut(part, []byte("-"))
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(string(first))
		to, err2 := strconv.Atoi(string(last))
		if err != nil || err2 != nil || to < from {
			return 0, false
		}
		n += to - from + 1
	}
	return n, true
}

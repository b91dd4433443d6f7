package net

import (
	"bytes"
	"os"
	"runtime/metrics"
	"strconv"
)

// MemoryUsage is the memoryUsage that every daemon tells in its status, in bytes. The names are those of the original; the
// values are this process's own.
type MemoryUsage struct {
	RSS          uint64 `json:"rss"`          // resident, all of the process
	HeapTotal    uint64 `json:"heapTotal"`    // memory that the heap holds
	HeapUsed     uint64 `json:"heapUsed"`     // memory that objects occupy
	External     uint64 `json:"external"`     // memory of the runtime outside the heap: stacks, its own structures
	ArrayBuffers uint64 `json:"arrayBuffers"` // always 0: there are none
}

// MeasureMemory measures this process. It does not stop the world. RSS is 0 where the system has no /proc.
func MeasureMemory() MemoryUsage {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	total, used, unused, free, released := samples[0].Value.Uint64(), samples[1].Value.Uint64(),
		samples[2].Value.Uint64(), samples[3].Value.Uint64(), samples[4].Value.Uint64()
	heap := used + unused + free
	return MemoryUsage{RSS: residentBytes(), HeapTotal: heap, HeapUsed: used, External: total - heap - released}
}

// residentBytes reads the second field of /proc/self/statm, which counts pages.
func residentBytes() uint64 {
	content, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(content)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

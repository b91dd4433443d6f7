// Package process measures the process that it is in.
package process

import (
	"bytes"
	"os"
	"runtime/metrics"
	"strconv"

	"jobd/net/api"
)

// Memory is what memory this process uses. Measuring does not stop the world. RSS is 0 where the
// system has no /proc.
func Memory() api.MemoryUsage {
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
	return api.MemoryUsage{RSS: residentBytes(), HeapTotal: heap, HeapUsed: used, External: total - heap - released}
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

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"jobd/tests/harness"
)

// hourlong is how many minutes of load are watched; BENCH_HOUR says others.
const hourlong = 60

// hour is what an hour of jobs, open pages and visits leaves behind in a worker: memory and open files each minute,
// and how fast they grow behind the first ten minutes.
func hour(p *program) []reading {
	minutes, err := strconv.Atoi(os.Getenv("BENCH_HOUR"))
	if err != nil || minutes <= 0 {
		minutes = hourlong
	}
	b := startPage(p, pageSize{rows: 20_000, jobs: 20_000})
	ctx, cancel := context.WithTimeout(p.Context(), time.Duration(minutes)*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	again := func(pause time.Duration, do func(n int)) {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-time.After(pause):
					do(n)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	again(time.Second, func(int) { // 20 jobs a second
		b.site.insert(20, "echo", "waiting")
		b.client.Ask(p, "poll", nil)
	})
	again(300*time.Millisecond, func(n int) { b.load(pageScreens[n%len(pageScreens)]) })
	defer b.watch(mixed(30)...)()

	var x, memory, files []float64
	of := p.residents(b.worker)
	for minute := 0; ; minute++ {
		open, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(b.worker.Pid), "fd"))
		p.must(err)
		own := float64(harness.Memory(p, b.worker.Pid)) / megabyte
		p.Logf("minute %d: %.1f MB, with the runner %.1f MB, %d files, %v of processor time", minute, own, of.now(), len(open), processorTime(p, b.worker.Pid))
		if minute >= min(10, minutes/2) {
			x, memory, files = append(x, float64(minute)), append(memory, own), append(files, float64(len(open)))
		}
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
			return []reading{{value: 60 * slope(x, memory), raw: median(memory)}, {value: 60 * slope(x, files), raw: median(files)}}
		}
	}
}

// slope is how much y grows with x, by least squares.
func slope(x, y []float64) float64 {
	n, sx, sy, sxx, sxy := float64(len(x)), sum(x), sum(y), 0.0, 0.0
	for i := range x {
		sxx, sxy = sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	return (n*sxy - sx*sy) / max(n*sxx-sx*sx, 1)
}

// hourRows are what hour gives.
func hourRows() []row {
	return []row{
		{fmt.Sprintf("memory of a worker after %d minutes of jobs, 30 open pages and visits, growth an hour (median in the place of the raw limit)", hourlong), "MB", atMost(5)},
		{"its open files, the same", "", atMost(2)},
	}
}

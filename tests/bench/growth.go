package main

import (
	"fmt"

	"jobd/tests/harness"
)

// growth makes a benchmark of one thing at several sizes, each beside the first.
func growth[N any](name, unit, what string, measure func(*program, N) float64, sizes ...N) benchmark {
	b := benchmark{name: name, extra: true}
	for _, size := range sizes {
		b.rows = append(b.rows, row{what: fmt.Sprintf(what, size), unit: unit})
	}
	b.run = func(p *program) []reading {
		readings := make([]reading, len(sizes))
		for i, size := range sizes {
			readings[i].value = measure(p, size)
			readings[i].raw = readings[0].value
			readings[i].ratio = readings[i].value / readings[0].value
		}
		return readings
	}
	return b
}

// claimAmong is a claim of 20 of so many rows.
func claimAmong(p *program, rows int) float64 {
	t := waiting(p, rows)
	t.claim(p) // the first one examines the table
	var times []float64
	for range 40 {
		times = append(times, took(func() { t.claim(p) }))
	}
	return median(times)
}

// drainServing is a drain by a worker that serves so many targets, up to ten of which have jobs; ten at once.
func drainServing(p *program, targets int) float64 {
	s := newSite(p)
	busy := min(targets, concurrency)
	served := map[string]int{}
	for i := range targets {
		served[fmt.Sprint("t", i)] = concurrency / busy
	}
	client := harness.Dial(p, s.worker("bench", launcher, served).Addr)
	for i := range busy {
		s.insert(drained/busy, fmt.Sprint("t", i), "waiting")
	}
	return rate(drained, func() {
		client.Ask(p, "poll", nil)
		s.awaitDone()
	})
}

// drainTogether is a drain by so many workers that have 16 slots together.
func drainTogether(p *program, n int) float64 {
	s := newSite(p)
	_, poke := s.team(n, workers*slots/n)
	return s.drainRate(drained, "a", poke)
}

// drainWriting is a drain of jobs that write so many KiB each, which nothing compresses.
func drainWriting(p *program, kib int) float64 {
	s := newSite(p)
	n := max(200, 2000/(kib+1))
	write := fmt.Sprintf("head -c %dk /dev/urandom", kib)
	client := harness.Dial(p, s.worker("bench", harness.Script(p, write)+" {id}", map[string]int{"a": concurrency}).Addr)
	return s.drainRate(n, "a", func() { client.Ask(p, "poll", nil) })
}

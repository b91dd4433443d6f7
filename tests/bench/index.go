package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/index"
)

// indexed is how many jobs the queries are measured among.
const indexed = 200_000

// indexing is what the index beside a journal costs its appends, how fast it is made, and how long queries take.
func indexing(p *program) []reading {
	dir := p.TempDir()
	j, err := eventlog.Open(p.Context(), eventlog.Config{Dir: dir})
	p.must(err)
	defer j.Close()
	var job atomic.Int64
	follow := func(use func(x *index.Index)) {
		x := index.New(index.Config{Dir: dir, Log: j, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(p.Context())
		ended := make(chan error, 1)
		go func() { ended <- x.Run(ctx) }()
		_, _ = x.Targets(ctx) // has it begun at once
		use(x)
		cancel()
		p.must(<-ended)
	}
	beside := paired(7, func() float64 { return appendRate(p, j, 64, &job) }, func() (rate float64) {
		follow(func(*index.Index) { rate = appendRate(p, j, 64, &job) })
		return rate
	})
	return append([]reading{beside}, queries(p)...)
}

// queries fills a journal, has its index made, and asks it.
func queries(p *program) []reading {
	dir := p.TempDir()
	j, err := eventlog.Open(p.Context(), eventlog.Config{Dir: dir})
	p.must(err)
	defer j.Close()
	for first := 0; first < indexed; first += 500 {
		var drafts []journal.Draft
		for n := first; n < first+500; n++ {
			drafts = append(drafts, wordy(int64(n+1))...)
		}
		_, err := j.Append(drafts...)
		p.must(err)
	}
	x := index.New(index.Config{Dir: dir, Log: j, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(p.Context())
	ended := make(chan error, 1)
	begun := time.Now()
	go func() { ended <- x.Run(ctx) }()
	_, _ = x.Targets(ctx) // has it begun at once
	for x.Standing(ctx).Lag > 0 {
		select {
		case <-time.After(100 * time.Millisecond):
		case err := <-ended:
			p.Fatal(err)
		}
	}
	made := reading{value: indexed / time.Since(begun).Seconds()}
	var slowest float64
	for _, q := range []index.Query{
		{},
		{Targets: []string{"t3"}},
		{Result: "fail"},
		{Targets: []string{"t1"}, Result: "fail"},
		{Codes: []int{3}},
		{Codes: []int{3}, Targets: []string{"t3"}},
		{Status: journal.StatusIgnored},
		{Text: "w1"},
		{Text: "w1 w2 w700"},
		{Text: "nobody"},
		{Text: "w70*"},
		{Text: "w1", Targets: []string{"nobody"}},
		{Since: time.Now().Add(-time.Hour), Until: time.Now().Add(-time.Minute)},
	} {
		q.Most = 100
		var times []float64
		for range 100 {
			times = append(times, took(func() {
				_, _, err := x.Jobs(ctx, q)
				p.must(err)
			}))
		}
		slowest = max(slowest, percentile(times, 99))
	}
	cancel()
	p.must(<-ended)
	return []reading{made, {value: slowest}}
}

// wordy is a job that writes some words.
func wordy(job int64) []journal.Draft {
	drafts := life(job)
	code, result := 0, "ok"
	if job%50 == 0 {
		code, result = 1+int(job/50%5), "fail"
	}
	out := []byte("job ")
	for n := range int64(20) { // w1 in every other one, w700 in few
		out = fmt.Appendf(out, "w%d ", (job*(n*n+1))%(1<<(n/2+1)))
	}
	drafts[0].Payload = journal.Accepted{Target: fmt.Sprint("t", job%20), Token: token}
	drafts[3].Payload = journal.Done{Result: result, Code: &code, Stdout: journal.Output{Kept: out, Size: int64(len(out))}}
	return drafts
}

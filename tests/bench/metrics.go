package main

import (
	"io"
	"net/http"
	"time"

	"jobd/tests/harness"
)

// metricPairs is how often each of the two workers drains: what is looked for is less than a rate
// varies from one time to the next.
const metricPairs = 9

// scrapeInterval is shorter than anybody needs: Prometheus scrapes each minute where nothing else is said.
const scrapeInterval = 10 * time.Second

// scraped is a worker that counts, and is scraped each 10 s, beside one that does neither.
func scraped(p *program) []reading {
	plain, counting := newSite(p), newSite(p)
	at := "127.0.0.1:" + harness.FreePort(p)
	without := plain.worker("plain", launcher, map[string]int{"a": concurrency})
	with := counting.worker("counting", launcher, map[string]int{"a": concurrency}, harness.Settings{"http_listen": at})
	stop := scrapeEach(p, scrapeInterval, "http://"+at+"/metrics")
	defer stop()
	drainOf := func(s *site, d *harness.Daemon) (rate func(n int) float64) {
		client := harness.Dial(p, d.Addr)
		return func(n int) float64 { return s.drainRate(n, "a", func() { client.Ask(p, "poll", nil) }) }
	}
	raw, product := drainOf(plain, without), drainOf(counting, with)
	raw(500)
	product(500)
	before := [2]float64{used(p, []int{without.Pid}), used(p, []int{with.Pid})}
	rates := paired(metricPairs, func() float64 { return raw(drained) }, func() float64 { return product(drained) })
	const jobs = metricPairs * drained
	return []reading{
		rates,
		against((used(p, []int{with.Pid})-before[1])/jobs, (used(p, []int{without.Pid})-before[0])/jobs),
	}
}

// scrapeEach scrapes from now on, until it is stopped.
func scrapeEach(p *program, interval time.Duration, url string) (stop func()) {
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		again := time.NewTicker(interval)
		defer again.Stop()
		for {
			select {
			case <-ending:
				return
			case <-again.C:
				answer, err := http.Get(url)
				if err != nil {
					p.Logf("scrape: %v", err)
					continue
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}
	}()
	return func() { close(ending); <-ended }
}

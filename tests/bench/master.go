package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"jobd/tests/harness"
)

const (
	fleet = 2000
	pokes = 9
)

// masterFanOut is how long a poke takes to reach the workers of a large fleet, all but the slowest hundredth, beside
// the same frame written to as many connections by hand, and what memory the fleet costs the master.
func masterFanOut(p *program) []reading {
	master := harness.StartMaster(p, harness.Settings{"log_level_console": "warn"})
	arrivals := make(chan time.Time, fleet)
	for i := range fleet {
		conn, err := net.Dial("tcp", master.Addr)
		p.must(err)
		p.Cleanup(func() { conn.Close() })
		_, err = fmt.Fprintf(conn, `[0,{"no":1,"type":"register-worker","data":{"name":"w%d","targets":["a"]}}]%c`, i, harness.EOT)
		p.must(err)
		go attend(conn, arrivals)
	}
	harness.AwaitWorkers(p, master, "", fleet)
	plain := newBroadcast(p, arrivals)
	client := harness.Dial(p, master.Addr)
	delay := paired(pokes,
		func() float64 { return spread(arrivals, plain.send) },
		func() float64 {
			<-time.After(throttled)
			return spread(arrivals, func() { client.Ask(p, "poke", map[string]any{"targets": []string{"a"}}) })
		},
	)
	return []reading{delay, {value: float64(harness.Memory(p, master.Pid)) / megabyte}}
}

// spread is how many milliseconds pass from the sending to the arrival, p99 of the fleet.
func spread(arrivals <-chan time.Time, send func()) float64 {
	begun := time.Now()
	go send()
	delays := make([]float64, fleet)
	for i := range delays {
		delays[i] = float64((<-arrivals).Sub(begun)) / millisecond
	}
	return percentile(delays, 99)
}

// attend is a worker that says ok to all polls and tells when they came.
func attend(conn net.Conn, arrivals chan<- time.Time) {
	frames := bufio.NewReaderSize(conn, 512)
	for {
		frame, err := frames.ReadSlice(harness.EOT)
		if err != nil {
			return
		}
		came := time.Now()
		var kind int
		var body struct {
			No   int
			Type string
		}
		parts := []any{&kind, &body}
		if json.Unmarshal(frame[:len(frame)-1], &parts) != nil || kind != 0 {
			continue
		}
		if _, err := fmt.Fprintf(conn, `[1,{"no":%d,"data":"ok"}]%c`, body.No, harness.EOT); err != nil {
			return
		}
		arrivals <- came
	}
}

// broadcast is plain connections to workers of the same kind, and no master.
type broadcast struct{ conns []net.Conn }

func newBroadcast(p *program, arrivals chan<- time.Time) *broadcast {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	p.must(err)
	defer listener.Close()
	b := &broadcast{}
	for range fleet {
		conn, err := net.Dial("tcp", listener.Addr().String())
		p.must(err)
		go attend(conn, arrivals)
		accepted, err := listener.Accept()
		p.must(err)
		p.Cleanup(func() { conn.Close(); accepted.Close() })
		b.conns = append(b.conns, accepted)
	}
	return b
}

// send writes to all and reads their answers.
func (b *broadcast) send() {
	var answered sync.WaitGroup
	for _, conn := range b.conns {
		answered.Go(func() { _, _ = conn.Read(make([]byte, 64)) })
		_, _ = fmt.Fprintf(conn, `[0,{"no":1,"type":"poll","data":{"targets":["a"]}}]%c`, harness.EOT)
	}
	answered.Wait()
}

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

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/tests/harness"
)

// pageSize is what the page is measured on.
type pageSize struct {
	rows, jobs int // in the table; in the journal, of four events each
	loads      int // of each screen
	streams    time.Duration
}

// pageSizes are the usual one, and that of BENCH_PAGE=full.
var pageSizes = map[string]pageSize{
	"":     {rows: 1_000_000, jobs: 200_000, loads: 100, streams: 10 * time.Second},
	"full": {rows: 5_000_000, jobs: 2_500_000, loads: 200, streams: 30 * time.Second},
}

// pageTargets is how many targets there are; recurringJob is a job that has every tenth run of the journal.
const (
	pageTargets   = 20
	openPages     = 100
	recurringJob  = 7
	pageRecurring = 5000 // rows that recur, about
)

// pageScreens are the addresses that are loaded, each a row of the table.
var pageScreens = []string{
	"/", "/targets", "/targets/t3", "/jobs", "/jobs?target=t3&result=fail", "/jobs?status=waiting", "/jobs?status=delayed&target=t3",
	"/jobs/1234", fmt.Sprint("/jobs/", recurringJob), "/failed", "/schedules", "/workers", "/timeline", "/journal", "/journal?by=nobody",
	"/journal?target=t3&kind=done", "/jobs?text=w1", "/jobs?text=w1+w2+w700", "/jobs?text=nobody",
}

func pageRows() (rows []row) {
	for _, path := range pageScreens {
		most := 50.0
		if strings.Contains(path, "text=") {
			most = 200
		}
		rows = append(rows,
			row{"first byte of " + path + ", p99 (p50 in the place of the raw limit)", "ms", atMost(most)},
			row{what: "processor time of the worker for it", unit: "ms"})
	}
	for _, what := range []string{
		"nobody looks (raw: with jobs)", "100 × /, above nobody", "100 pages of waiting jobs, above nobody",
		"25 pages of each of four kinds, above nobody", "the same while jobs run, above jobs alone",
	} {
		rows = append(rows, row{"processor time of the worker, " + what, "% of a core", atMost(2)})
	}
	return append(rows,
		row{"memory after 2,000 page loads and 500 streams ÷ before", "MB", ratioAtMost(1.3)},
		row{"drained while 20 pages are open and one client searches ÷ without", "jobs/s", ratioAtLeast(0.9)})
}

// pageSpeed is how fast a worker's page is on a large table and a large journal, and what open pages cost.
func pageSpeed(p *program) (readings []reading) {
	size, known := pageSizes[os.Getenv("BENCH_PAGE")]
	if !known {
		p.Fatal("BENCH_PAGE is not known; allowed: full, or nothing")
	}
	b := startPage(p, size)
	for _, path := range pageScreens {
		b.load(path)
		var times []float64
		before := processorTime(p, b.worker.Pid)
		for len(times) < size.loads && sum(times) < 5000 {
			times = append(times, b.load(path))
		}
		own := float64(processorTime(p, b.worker.Pid)-before) / millisecond / float64(len(times))
		readings = append(readings, reading{value: percentile(times, 99), raw: median(times)}, reading{value: own})
		p.Logf("%-40s p50 %.1f ms, p99 %.1f ms, processor time %.2f ms", path, median(times), percentile(times, 99), own)
	}
	return append(append(readings, b.open(size)...), b.memory(), b.drain())
}

func sum(numbers []float64) (all float64) {
	for _, n := range numbers {
		all += n
	}
	return all
}

// pageBench is a worker with a page, on a large table.
type pageBench struct {
	p      *program
	site   *site
	worker *harness.Daemon
	client *harness.Wire
	url    string
	http   *http.Client
}

// startPage fills a table and a journal, and starts a worker on both.
func startPage(p *program, size pageSize) *pageBench {
	s := newTimesSite(p)
	begun := time.Now().Add(-time.Duration(size.jobs/pageBatch*pageSeconds) * time.Second)
	s.fill(size.rows, begun)
	folder := application(p)
	port := harness.FreePort(p)
	targets := map[string]int{"echo": poolSlots}
	for i := range pageTargets {
		targets[fmt.Sprint("t", i)] = 1
	}
	settings := s.Worker(p, "bench", launcher, targets).With(harness.UsesAll, harness.Settings{
		"log_level_console": "warn", "http_listen": "127.0.0.1:" + port, "[target echo] launcher_mode": "pool",
		"[target echo] launcher": "python3 " + filepath.Join(folder, "pool.py"), "prefetch": fmt.Sprint(keptPrefetch),
	})
	fillJournal(p, settings["journal_dir"], size.jobs, begun)
	b := &pageBench{p: p, site: s, url: "http://127.0.0.1:" + port, http: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	b.worker = settings.StartWorker(p)
	b.client = harness.Dial(p, b.worker.Addr)
	b.client.Ask(p, "pause", map[string]any{"targets": pages(pageTargets, func(i int) string { return fmt.Sprint("t", i) })})
	asked := time.Now()
	for indexed := ""; !strings.HasPrefix(indexed, "0"); <-time.After(100 * time.Millisecond) {
		indexed = b.metric("jobd_journal_index_lag_events ")
	}
	p.Logf("the index is made after %v", time.Since(asked))
	return b
}

// metric is a number that the worker tells.
func (b *pageBench) metric(name string) string {
	answer, err := b.http.Get(b.url + "/metrics")
	b.p.must(err)
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if value, is := strings.CutPrefix(lines.Text(), name); is {
			return value
		}
	}
	b.p.Fatalf("there is no metric %s", name)
	return ""
}

// The journal's jobs ended so many together, with as many seconds between, the first of them at a time.
const (
	pageBatch   = 500
	pageSeconds = 10
)

// fill makes so many rows: most have ended, a quarter waits, some are delayed, and pageRecurring recur.
func (s *site) fill(rows int, begun time.Time) {
	_, err := s.Admin.Exec(fmt.Sprintf(`INSERT INTO jobs (id, target, time_created, status, result, return_code, time_finished, run_at, schedule)
		SELECT seq, CONCAT('t', seq %% %d), UNIX_TIMESTAMP(), ELT(1 + seq %% 8, 'waiting', 'done', 'done', 'done', 'waiting', 'done', 'done', 'delayed'),
			IF(seq %% 4 IN (1, 2) OR seq %% 8 = 3, IF(seq %% 50 = 0, 'fail', 'ok'), NULL),
			IF(seq %% 4 IN (1, 2) OR seq %% 8 = 3, 0, NULL), %d + (seq - 1) DIV %d * %d, IF(seq %% 8 = 7, UNIX_TIMESTAMP() + 100000 + seq, 0), IF(seq %% %d = 7, '@daily', NULL)
		FROM seq_1_to_%d`, pageTargets, begun.Unix(), pageBatch, pageSeconds, max(8, rows/pageRecurring/8*8), rows))
	s.p.must(err)
	s.Exec(s.p, "CREATE INDEX schedule_idx ON jobs (schedule)") // without which rows that recur are looked for among all that wait
	s.Exec(s.p, "ANALYZE TABLE jobs")
	s.flush()
}

// fillJournal writes the lives of so many jobs, which the table shows.
func fillJournal(p *program, dir string, jobs int, now time.Time) {
	p.must(os.MkdirAll(dir, 0o700))
	j, err := eventlog.Open(p.Context(), eventlog.Config{Dir: dir, Now: func() time.Time { return now }})
	p.must(err)
	var last uint64
	for first := 0; first < jobs; first += pageBatch {
		var drafts []journal.Draft
		for n := first; n < first+pageBatch; n++ {
			of := wordy(int64(n + 1))
			for i := range of {
				if n%10 == 0 {
					of[i].Job = recurringJob
				}
			}
			drafts = append(drafts, of...)
		}
		events, err := j.Append(drafts...)
		p.must(err)
		last, now = events[len(events)-1].Seq, now.Add(pageSeconds*time.Second)
	}
	j.SetPosition(last)
	p.must(j.Maintain(p.Context()))
	p.must(j.Close())
}

// load loads a screen, and gives the milliseconds to its first byte.
func (b *pageBench) load(path string) (took float64) {
	took, _ = b.get(path)
	return took
}

// text is all of a screen.
func (b *pageBench) text(path string) string {
	_, text := b.get(path)
	return text
}

func (b *pageBench) get(path string) (took float64, text string) {
	begun := time.Now()
	answer, err := b.http.Get(b.url + path)
	b.p.must(err)
	took = float64(time.Since(begun)) / millisecond
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	b.p.must(err)
	if answer.StatusCode != http.StatusOK {
		b.p.Fatalf("%s was answered with %s: %.2000s", path, answer.Status, all)
	}
	return took, string(all)
}

// watch loads screens and looks at them, as browsers do, until stop is called.
func (b *pageBench) watch(paths ...string) (stop func()) {
	ctx, cancel := context.WithCancel(b.p.Context())
	var all sync.WaitGroup
	for _, path := range paths {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+path, nil)
		b.p.must(err)
		request.Header.Set("Accept", "text/event-stream")
		if strings.Contains(b.text(path), "data-rests") { // the page's script asks for no more of it
			continue
		}
		answer, err := b.http.Do(request)
		b.p.must(err)
		if answer.StatusCode != http.StatusOK {
			b.p.Fatalf("a stream of %s was answered with %s", path, answer.Status)
		}
		all.Go(func() { _, _ = io.Copy(io.Discard, answer.Body); answer.Body.Close() })
	}
	return func() { cancel(); all.Wait() }
}

// pages are so many addresses.
func pages(n int, path func(i int) string) (all []string) {
	for i := range n {
		all = append(all, path(i))
	}
	return all
}

func mixed(n int) []string {
	return pages(n, func(i int) string {
		return [...]string{"/", "/targets/t3", fmt.Sprint("/jobs/", 1000+i), "/workers"}[i%4]
	})
}

// open is what open pages cost.
func (b *pageBench) open(size pageSize) []reading {
	percent := func(long int, paths ...string) float64 { // the more views there are, the longer it takes until all were made anew
		stop := b.watch(paths...)
		defer stop()
		<-time.After(20 * time.Second) // until each was made, and for not all to be made anew at once
		before, begun := processorTime(b.p, b.worker.Pid), time.Now()
		<-time.After(time.Duration(long) * size.streams)
		return 100 * float64(processorTime(b.p, b.worker.Pid)-before) / float64(time.Since(begun))
	}
	nobody := percent(1)
	above := func(of float64) reading { return reading{value: of - nobody, raw: of} }
	readings := []reading{
		above(percent(1, pages(openPages, func(int) string { return "/" })...)),
		above(percent(4, pages(openPages, func(i int) string { return fmt.Sprint("/jobs/", 8*(1000+i)) })...)),
		above(percent(2, mixed(openPages)...)),
	}
	ctx, cancel := context.WithCancel(b.p.Context())
	ended := make(chan struct{})
	go func() { // 200 jobs a second
		defer close(ended)
		again := time.NewTicker(100 * time.Millisecond)
		defer again.Stop()
		for ctx.Err() == nil {
			<-again.C
			b.site.insert(20, "echo", "waiting")
			b.client.Ask(b.p, "poll", nil)
		}
	}()
	jobs := percent(2)
	both := percent(2, mixed(openPages)...)
	cancel()
	<-ended
	readings = append([]reading{{value: nobody, raw: jobs}}, append(readings, reading{value: both - jobs, raw: both})...)
	b.p.Logf("processor time in percent: %.1f", readings)
	return readings
}

// memory is what many loads and streams leave behind.
func (b *pageBench) memory() reading {
	of := b.p.residents(b.worker)
	before := of.now()
	for i := range 2000 {
		b.load([...]string{"/", "/jobs", "/jobs/1234", "/workers"}[i%4])
	}
	for i := range 500 {
		b.watch([...]string{"/", "/targets", fmt.Sprint("/jobs/", 1000+i)}[i%3])()
	}
	return against(of.now(), before)
}

// drain is how fast jobs end beside open pages and searches.
func (b *pageBench) drain() reading {
	const jobs = 10_000
	poll := func() { b.client.Ask(b.p, "poll", nil) }
	rate := func() float64 {
		first := b.site.insert(jobs, "echo", "waiting")
		return rate(jobs, func() {
			poll()
			harness.Until(b.p, func() string {
				if n := b.site.Count(b.p, "target = 'echo' AND status <> 'done' AND id >= ?", first); n > 0 {
					return fmt.Sprint(n, " are not done")
				}
				return ""
			})
		})
	}
	rate()
	return paired(4, rate, func() float64 {
		defer b.watch(mixed(20)...)()
		ctx, cancel := context.WithCancel(b.p.Context())
		var searches sync.WaitGroup
		searches.Go(func() {
			for ctx.Err() == nil {
				b.load("/jobs?text=w1+w2+w700")
			}
		})
		defer func() { cancel(); searches.Wait() }()
		return rate()
	})
}

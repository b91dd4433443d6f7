package metrics

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"jobd/cmd/internal/version"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Worker counts what a worker does, which is told it when that has happened: it is a jobexec.Observer. Its methods
// are safe for concurrent use, and fast.
type Worker struct {
	registry *prometheus.Registry
	targets  *byTarget
	claims   *prometheus.CounterVec
	claimed  prometheus.Histogram
	commits  prometheus.Histogram
	written  prometheus.Counter
	events   *prometheus.CounterVec
}

// NewWorker makes the counters of a worker of a build.
func NewWorker(build version.Build) *Worker {
	r := newRegistry("jobd_build_info", build)
	w := &Worker{
		registry: r, targets: newByTarget(r),
		claims:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "jobd_claims_total", Help: "Claims that were tried, by whether they succeeded."}, []string{"result"}),
		claimed: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "jobd_claim_seconds", Help: "How long the table took to answer claims.", Buckets: claimBounds}),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "jobd_journal_commit_seconds", Help: "How long the commits of the journal took until they were on the disk, fsync included.", Buckets: diskBounds,
		}),
		written: prometheus.NewCounter(prometheus.CounterOpts{Name: "jobd_journal_written_bytes_total", Help: "Bytes of the events that were written to the journal."}),
		events:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "jobd_journal_events_total", Help: "Events that were journalled, by their kind."}, []string{"kind"}),
	}
	for _, kind := range journal.Kinds() {
		w.events.WithLabelValues(string(kind))
	}
	for _, result := range []string{"ok", "failed"} {
		w.claims.WithLabelValues(result)
	}
	r.MustRegister(w.claims, w.claimed, w.commits, w.written, w.events)
	return w
}

// JobStarted implements jobexec.Observer.
func (w *Worker) JobStarted(target string, waited time.Duration) {
	w.targets.wait.WithLabelValues(w.targets.of(target)).Observe(waited.Seconds())
}

// JobEnded implements jobexec.Observer.
func (w *Worker) JobEnded(target string, done journal.Done) { w.targets.ended(target, done) }

// Claimed implements jobexec.Observer.
func (w *Worker) Claimed(took time.Duration, err error) {
	w.claimed.Observe(took.Seconds())
	result := "ok"
	if err != nil {
		result = "failed"
	}
	w.claims.WithLabelValues(result).Inc()
}

// Committed counts a commit of the journal, and its events.
func (w *Worker) Committed(events []journal.Event, bytes int64, took time.Duration) {
	w.commits.Observe(took.Seconds())
	w.written.Add(float64(max(0, bytes)))
	for _, e := range events {
		w.events.WithLabelValues(string(e.Kind())).Inc()
	}
}

// Count gives handlers that count the requests that they answer.
func (w *Worker) Count(handlers map[string]jobnet.Handler) map[string]jobnet.Handler {
	return counted(w.registry, "jobd_requests_total", handlers)
}

// Now is how a worker stands at a scrape.
type Now struct {
	Status      api.WorkerStatus
	Unshown     uint64    // events that the mirror has not tried to show
	UnshownFrom time.Time // when the first of them was journalled; zero: there is none, or it is not known
	Outages     uint64    // of the database that are over
	RunnerLinks uint64    // connections that were made to a runner
	Free, Total int64     // bytes of the journal's disk

	Index        bool          // there is an index of jobs
	IndexLag     uint64        // events that are not in it
	IndexBehind  time.Duration // how long ago the first of them was journalled
	IndexStopped bool          // it does not go on
}

// Sources are what is asked at a scrape.
type Sources struct {
	Now     func() Now
	Waiting func(ctx context.Context, targets []string) (api.WaitingRows, error)
}

// Handler answers scrapes. It is called once. Collectors run beside each other, so it is looked before
// them how the worker stands: each target has all its series from the first scrape on, at 0, without
// which the first of its jobs would be missing from every rate.
func (w *Worker) Handler(s Sources) http.Handler {
	var latest atomic.Pointer[Now]
	table := &backlog{targets: w.targets, count: s.Waiting}
	w.registry.MustRegister(newNumbers(func() *scraped {
		now := &scraped{Now: *latest.Load()}
		now.add(w.targets)
		now.waiting, now.at = table.look(now.Status.Targets), time.Now()
		return now
	}, standing()))
	gather := handler(w.registry)
	return http.HandlerFunc(func(to http.ResponseWriter, request *http.Request) {
		now := s.Now()
		for target := range now.Status.Targets {
			w.targets.of(target)
		}
		latest.Store(&now)
		gather.ServeHTTP(to, request)
	})
}

package metrics

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"jobd/cmd/internal/version"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Worker counts what a worker does, which is told it when that has happened. Its methods are safe for
// concurrent use, and fast.
type Worker struct {
	registry *prometheus.Registry
	targets  *byTarget
	claimed  prometheus.Observer
	won      prometheus.Counter
	failed   prometheus.Counter
	commits  prometheus.Histogram
	written  prometheus.Counter
	events   map[string]prometheus.Counter
}

// NewWorker makes the counters of a worker of a build, whose journal has events of some kinds.
func NewWorker(build version.Build, kinds []string) *Worker {
	r := newRegistry("jobd_build_info", build)
	register := func(c prometheus.Collector) { r.MustRegister(c) }
	w := &Worker{registry: r, targets: newByTarget(register), events: make(map[string]prometheus.Counter)}
	claims := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "jobd_claims_total", Help: "Claims that the table was asked for, by whether they succeeded."}, []string{"result"})
	claimed := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "jobd_claim_seconds", Help: "How long the table took to answer claims.", Buckets: claimBounds})
	w.claimed, w.won, w.failed = claimed, claims.WithLabelValues("ok"), claims.WithLabelValues("failed")
	w.commits = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "jobd_journal_commit_seconds", Help: "How long the commits of the journal took until they were on the disk, fsync included.", Buckets: diskBounds,
	})
	w.written = prometheus.NewCounter(prometheus.CounterOpts{Name: "jobd_journal_written_bytes_total", Help: "What events took in the journal when they were written."})
	events := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "jobd_journal_events_total", Help: "Events that were journalled, by their kind."}, []string{"kind"})
	for _, kind := range kinds {
		w.events[kind] = events.WithLabelValues(kind)
	}
	r.MustRegister(claims, claimed, w.commits, w.written, events)
	return w
}

// JobStarted counts a job that was started, and how long it had waited for that.
func (w *Worker) JobStarted(target string, waited time.Duration) {
	w.targets.of(target).wait.Observe(waited.Seconds())
}

// JobEnded counts the end of a job.
func (w *Worker) JobEnded(target string, end End) { w.targets.of(target).ended(end) }

// Claimed counts a claim, and how long the table took to answer it.
func (w *Worker) Claimed(took time.Duration, ok bool) {
	w.claimed.Observe(took.Seconds())
	if ok {
		w.won.Inc()
	} else {
		w.failed.Inc()
	}
}

// Committed counts a commit of the journal.
func (w *Worker) Committed(bytes int64, took time.Duration) {
	w.commits.Observe(took.Seconds())
	w.written.Add(float64(max(0, bytes)))
}

// Journalled counts an event.
func (w *Worker) Journalled(kind string) {
	if count := w.events[kind]; count != nil {
		count.Inc()
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
	w.registry.MustRegister(
		newStanding(w.targets, func() Now { return *latest.Load() }),
		newBacklog(w.targets, func() Now { return *latest.Load() }, s.Waiting),
	)
	scrape := handler(w.registry)
	return http.HandlerFunc(func(to http.ResponseWriter, request *http.Request) {
		now := s.Now()
		for target := range now.Status.Targets {
			w.targets.of(target)
		}
		latest.Store(&now)
		scrape.ServeHTTP(to, request)
	})
}

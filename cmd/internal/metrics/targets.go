package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"jobd/journal"
)

// mostTargets is how many targets have series of their own: those that were met first. All others
// together are otherTargets, and so is a target of that very name.
const (
	mostTargets  = 200
	otherTargets = "(others)"
)

// The bounds of histograms, in seconds. Waits are known to the second only: time_created has no
// fractions.
var (
	runBounds   = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400}
	waitBounds  = []float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400}
	claimBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
	diskBounds  = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}
)

// byTarget counts by target. Its methods are safe for concurrent use.
type byTarget struct {
	finished, retries, timeouts, cancelled *prometheus.CounterVec
	wait, run                              *prometheus.HistogramVec
	last                                   *prometheus.GaugeVec

	mu    sync.Mutex
	known map[string]bool // labels
	own   int             // of them, of one target each
}

func newByTarget(r *prometheus.Registry) *byTarget {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"target"}, labels...))
		r.MustRegister(v)
		return v
	}
	histogram := func(name, help string, bounds []float64) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds}, ofTarget)
		r.MustRegister(v)
		return v
	}
	last := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "jobd_job_last_success_timestamp_seconds",
		Help: "When a job ended well last, in unix seconds; 0 before the first since the worker's start.",
	}, ofTarget)
	r.MustRegister(last)
	return &byTarget{
		last:      last,
		known:     make(map[string]bool),
		finished:  counter("jobd_jobs_finished_total", "Jobs that have ended, by the result in their row.", "result"),
		retries:   counter("jobd_job_retries_total", "Failed jobs whose rows come back for another attempt."),
		timeouts:  counter("jobd_jobs_timed_out_total", "Jobs that were ended because their time limit was over."),
		cancelled: counter("jobd_jobs_cancelled_total", "Jobs that somebody cancelled while they ran."),
		wait:      histogram("jobd_job_wait_seconds", "How long rows had waited when their job was started, since they were made, set back or due.", waitBounds),
		run:       histogram("jobd_job_run_seconds", "How long jobs ran.", runBounds),
	}
}

// of gives the label of a target's series, each of which is there from then on: its own, or that of the others where
// there are too many.
func (b *byTarget) of(name string) (label string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name != otherTargets && !b.known[name] && b.own >= mostTargets {
		name = otherTargets
	}
	if b.known[name] {
		return name
	}
	b.known[name] = true
	if name != otherTargets { // two series can't have one label
		b.own++
	}
	for _, result := range []string{"ok", "fail"} {
		b.finished.WithLabelValues(name, result)
	}
	for _, counter := range []*prometheus.CounterVec{b.retries, b.timeouts, b.cancelled} {
		counter.WithLabelValues(name)
	}
	b.wait.WithLabelValues(name)
	b.run.WithLabelValues(name)
	b.last.WithLabelValues(name)
	return name
}

// ended counts the end of a job.
func (b *byTarget) ended(target string, done journal.Done) {
	label, result := b.of(target), "fail"
	if done.Result == "ok" {
		result = "ok"
		b.last.WithLabelValues(label).SetToCurrentTime()
	}
	b.finished.WithLabelValues(label, result).Inc()
	if ran := time.Duration(done.Elapsed) * time.Microsecond; ran > 0 { // else nobody knows
		b.run.WithLabelValues(label).Observe(ran.Seconds())
	}
	if done.Timeout > 0 {
		b.timeouts.WithLabelValues(label).Inc()
	}
	if done.WasCancelled() {
		b.cancelled.WithLabelValues(label).Inc()
	}
	if done.Again != nil && done.Again.Why == journal.AgainRetry {
		b.retries.WithLabelValues(label).Inc()
	}
}

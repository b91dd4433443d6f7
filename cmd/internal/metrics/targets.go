package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

	mu    sync.RWMutex
	known map[string]*target
	rest  *target
}

// target is the series of one target.
type target struct {
	label                      string
	ok, fail                   prometheus.Counter
	retries, timeouts, stopped prometheus.Counter
	wait, run                  prometheus.Observer
	last                       prometheus.Gauge
}

func newByTarget(register func(prometheus.Collector)) *byTarget {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"target"}, labels...))
		register(v)
		return v
	}
	histogram := func(name, help string, bounds []float64) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds}, []string{"target"})
		register(v)
		return v
	}
	last := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "jobd_job_last_success_timestamp_seconds",
		Help: "When a job ended well last, in unix seconds; 0 before the first since the worker's start.",
	}, []string{"target"})
	register(last)
	return &byTarget{
		last:      last,
		known:     make(map[string]*target),
		finished:  counter("jobd_jobs_finished_total", "Jobs that have ended, by the result that their row tells.", "result"),
		retries:   counter("jobd_job_retries_total", "Failed jobs whose rows come back for another attempt."),
		timeouts:  counter("jobd_jobs_timed_out_total", "Jobs that were ended because they ran for longer than they may."),
		cancelled: counter("jobd_jobs_cancelled_total", "Jobs that somebody cancelled while they ran."),
		wait:      histogram("jobd_job_wait_seconds", "How long rows had waited when their job was started, since they were made, set back or due.", waitBounds),
		run:       histogram("jobd_job_run_seconds", "How long jobs ran.", runBounds),
	}
}

// of gives the series of a target: its own, or those of the others where there are too many.
func (b *byTarget) of(name string) *target {
	b.mu.RLock()
	t := b.known[name]
	b.mu.RUnlock()
	if t != nil {
		return t
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.known[name] != nil:
		return b.known[name]
	case len(b.known) < mostTargets && name != otherTargets: // two series can't have one label
		b.known[name] = b.make(name)
		return b.known[name]
	case b.rest == nil:
		b.rest = b.make(otherTargets)
	}
	return b.rest
}

// own tells whether a target has series of its own.
func (b *byTarget) own(name string) bool {
	t := b.of(name)
	b.mu.RLock()
	defer b.mu.RUnlock()
	return t != b.rest
}

func (b *byTarget) make(label string) *target {
	return &target{
		label: label,
		ok:    b.finished.WithLabelValues(label, "ok"), fail: b.finished.WithLabelValues(label, "fail"),
		retries: b.retries.WithLabelValues(label), timeouts: b.timeouts.WithLabelValues(label), stopped: b.cancelled.WithLabelValues(label),
		wait: b.wait.WithLabelValues(label), run: b.run.WithLabelValues(label),
		last: b.last.WithLabelValues(label),
	}
}

// End is how a job has ended.
type End struct {
	OK        bool
	Ran       time.Duration // 0: nobody knows
	TimedOut  bool
	Cancelled bool
	Retried   bool // its row comes back for another attempt
}

// ended counts the end of a job.
func (t *target) ended(e End) {
	if e.OK {
		t.ok.Inc()
		t.last.SetToCurrentTime()
	} else {
		t.fail.Inc()
	}
	if e.Ran > 0 {
		t.run.Observe(e.Ran.Seconds())
	}
	if e.TimedOut {
		t.timeouts.Inc()
	}
	if e.Cancelled {
		t.stopped.Inc()
	}
	if e.Retried {
		t.retries.Inc()
	}
}

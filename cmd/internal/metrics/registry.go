package metrics

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"jobd/cmd/internal/version"
	jobnet "jobd/net"
)

// A scrape takes as long at most, and so many are answered at once.
const (
	scrapeTimeout = 8 * time.Second // less than Prometheus waits by default
	mostScrapes   = 4
)

// newRegistry makes a registry with what is told of any process, and the build.
func newRegistry(info string, build version.Build) *prometheus.Registry {
	r := prometheus.NewRegistry()
	told := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: info, Help: "1; the labels are the version, its commit and the version of Go."}, []string{"version", "commit", "goversion"})
	told.WithLabelValues(build.Version, build.Commit, runtime.Version()).Set(1)
	r.MustRegister(told, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// handler answers scrapes, as they are: to compress some kilobytes would cost more than to gather them.
func handler(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes, Timeout: scrapeTimeout, DisableCompression: true})
}

// counted gives handlers that count the requests that they answer. What nobody handles is not
// counted: its name is the peer's.
func counted(r *prometheus.Registry, name string, handlers map[string]jobnet.Handler) map[string]jobnet.Handler {
	all := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: "Requests that were begun, by their name."}, []string{"request"})
	r.MustRegister(all)
	counting := make(map[string]jobnet.Handler, len(handlers))
	for request, handle := range handlers {
		count := all.WithLabelValues(request)
		counting[request] = func(ctx context.Context, link *jobnet.Link, data jobnet.Request) (any, error) {
			count.Inc()
			return handle(ctx, link, data)
		}
	}
	return counting
}

// send gives one value of a number, with those of its labels.
type send = func(value float64, labels ...string)

// number is asked for at a scrape. One whose name ends with _total is a counter.
type number[S any] struct {
	name, help string
	labels     []string
	tell       func(now S, send send)
}

// numbers collects numbers from how something stands.
type numbers[S any] struct {
	now   func() S
	all   []number[S]
	descs []*prometheus.Desc
}

func newNumbers[S any](now func() S, all []number[S]) *numbers[S] {
	n := &numbers[S]{now: now, all: all}
	for _, one := range all {
		n.descs = append(n.descs, prometheus.NewDesc(one.name, one.help, one.labels, nil))
	}
	return n
}

// Describe implements prometheus.Collector.
func (n *numbers[S]) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range n.descs {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (n *numbers[S]) Collect(to chan<- prometheus.Metric) {
	now := n.now()
	for i, one := range n.all {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(one.name, "_total") {
			kind = prometheus.CounterValue
		}
		one.tell(now, func(value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(n.descs[i], kind, value, labels...)
		})
	}
}

// always is a number without labels that is always known.
func always[S any](value func(now S) float64) func(S, send) {
	return func(now S, send send) { send(value(now)) }
}

// truth is a condition as a number.
func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// age is how many seconds ago something was; 0 where it was not.
func age(since, now time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(0, now.Sub(since).Seconds())
}

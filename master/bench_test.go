package master

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/must"
)

// One operation is a poke that every worker of a fleet is polled for.
func BenchmarkPoke(b *testing.B) {
	for _, fleet := range []int{10, 1000} {
		b.Run(fmt.Sprintf("workers=%d", fleet), func(b *testing.B) {
			address, _, _ := serveMaster(b, Config{}, "")
			polled := make(chan struct{}, fleet)
			handlers := map[string]jobnet.Handler{"poll": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
				polled <- struct{}{}
				return "ok", nil
			}}
			for i := range fleet {
				registered(b, address, fmt.Sprint("w", i), []string{"a"}, handlers)
			}
			client := connect(b, address, jobnet.LinkConfig{})
			b.ReportAllocs()
			for b.Loop() {
				must.Get(client.Request(b.Context(), "poke", api.Targets{Targets: []string{"a"}}))(b)
				for range fleet {
					<-polled
				}
			}
			b.ReportMetric(float64(b.N*fleet)/b.Elapsed().Seconds(), "polls/s")
		})
	}
}

// One operation is 1,000 jobs by hand that find their workers among many.
func BenchmarkAssign(b *testing.B) {
	jobs := make([]job, 1000)
	for i := range jobs {
		jobs[i] = job{ID: jobnet.Whole(i + 1), Target: "b"}
	}
	var workers registry
	for i := range 2000 {
		w := newProfile(api.Registration{Name: fmt.Sprint("w", i), Targets: []string{"a", "b"}})
		if _, _, err := workers.put(new(jobnet.Link), w); err != nil {
			b.Fatal(err)
		}
	}
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		shares, _ := workers.assign(jobs, nil, now)
		for w, share := range shares {
			workers.takeBack(w, share)
		}
	}
}

// BenchmarkRunManual asks for one job by hand through a master, of a worker that answers at once.
func BenchmarkRunManual(b *testing.B) {
	address, _, _ := serveMaster(b, Config{}, "s3cret")
	registered(b, address, "w", []string{"a"}, map[string]jobnet.Handler{
		"run-manual": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			request.Proceed()
			return json.RawMessage(`{"jobs":{"5":{"result":"ok","code":0,"signal":null,"stdout":"","stderr":""}}}`), nil
		},
	})
	client := connect(b, address, jobnet.LinkConfig{Password: "s3cret"})
	jobs := json.RawMessage(`{"jobs":[{"id":5,"target":"a"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		must.Get(client.Request(b.Context(), "run-manual", jobs))(b)
	}
}

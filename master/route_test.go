package master

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
)

// runner is a worker that runs manual jobs when it is told to.
type runner struct {
	mu     sync.Mutex
	got    []jobnet.Whole
	finish chan struct{} // closed: jobs end
	length int           // that status tells of target a
}

func newRunner() *runner { return &runner{finish: make(chan struct{})} }

func (r *runner) handlers() map[string]jobnet.Handler {
	return map[string]jobnet.Handler{
		"run-manual": func(ctx context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			request.Proceed()
			var data api.Manual
			if err := json.Unmarshal(request.Data, &data); err != nil {
				return nil, err
			}
			r.mu.Lock()
			r.got = append(r.got, data.IDs...)
			r.mu.Unlock()
			select {
			case <-r.finish:
			case <-ctx.Done():
			}
			jobs := make(map[jobnet.Whole]string)
			for _, id := range data.IDs {
				jobs[id] = "done"
			}
			return map[string]any{"jobs": jobs}, nil
		},
		"status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			return map[string]any{"targets": map[string]any{"a": map[string]int{"length": r.length}}}, nil
		},
	}
}

func (r *runner) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

func jobList(ids ...int) string {
	jobs := make([]map[string]any, len(ids))
	for i, id := range ids {
		jobs[i] = map[string]any{"id": id, "target": "a"}
	}
	text, _ := json.Marshal(map[string]any{"jobs": jobs})
	return string(text)
}

func TestManualJobsAreSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{})
		one, two, other := newRunner(), newRunner(), newRunner()
		b.join("one", one.handlers(), "a")
		b.join("two", two.handlers(), "a", "b")
		b.join("other", other.handlers(), "b")
		answer := make(chan string, 2)
		go func() { answer <- b.do("run-manual", jobList(1, 2, 3, 4, 5, 5, 1)) }()
		synctest.Wait()
		if one.count()+two.count() != 5 || one.count() < 2 || two.count() < 2 || other.count() != 0 {
			t.Errorf("%d and %d jobs, want 5, evenly", one.count(), two.count())
		}
		less := one
		if two.count() < one.count() {
			less = two
		}
		go func() { answer <- b.do("run-manual", jobList(6)) }()
		synctest.Wait()
		check.Equal(t, less.count(), 3, "the sixth job did not go to the less loaded worker")
		close(one.finish)
		close(two.finish)
		got := []string{<-answer, <-answer}
		slices.SortFunc(got, func(a, b string) int { return len(a) - len(b) })
		check.Equal(t, got[0], `{"jobs":{"6":"done"}}`, "answer")
		check.Equal(t, got[1], `{"jobs":{"1":"done","2":"done","3":"done","4":"done","5":"done"}}`, "answer")
	})
}

// The lengths of queues that workers tell count, for a while; among equals, workers take turns.
func TestLoadCountsTheLengthLastTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{PingInterval: time.Hour})
		busy, free := newRunner(), newRunner()
		busy.length = 3
		close(busy.finish)
		close(free.finish)
		b.join("busy", busy.handlers(), "a")
		b.join("free", free.handlers(), "a")
		b.do("status", `{"poll_workers":true}`)
		for id := range 4 {
			b.do("run-manual", jobList(id))
		}
		if busy.count() != 0 || free.count() != 4 {
			t.Errorf("%d and %d jobs, want all with the free one", busy.count(), free.count())
		}
		time.Sleep(2 * lengthKeeps)
		for id := range 4 {
			b.do("run-manual", jobList(id))
		}
		if busy.count() != 2 || free.count() != 6 {
			t.Errorf("%d and %d jobs, want them by turns once the length is old", busy.count(), free.count())
		}
	})
}

func TestManualJobsThatFail(t *testing.T) {
	t.Parallel()
	answers := func(data string, err error) map[string]jobnet.Handler {
		return map[string]jobnet.Handler{"run-manual": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			return json.RawMessage(data), err
		}}
	}
	breaks := map[string]jobnet.Handler{"run-manual": func(_ context.Context, link *jobnet.Link, _ jobnet.Request) (any, error) {
		return nil, link.Close()
	}}
	tests := []struct {
		name     string
		handlers map[string]jobnet.Handler
		want     string
	}{
		{"the connection breaks", breaks, "the connection to worker 'w' was lost, the outcome is unknown"},
		{"the worker refuses", answers("null", jobnet.Refusal("another client is already waiting for job 1")), "another client is already waiting for job 1"},
		{"the worker breaks", answers("null", errors.New("disk full")), "internal error"},
		{"the job fails there", answers(`{"errors":{"1":"job 1 not found"}}`, nil), "job 1 not found"},
		{"the worker forgets the job", answers(`{"jobs":{"2":{}}}`, nil), "worker 'w' did not report what became of the job"},
		{"the worker says nothing", answers(`null`, nil), "worker 'w' gave an answer that can't be understood"},
		{"the worker says nonsense", answers(`[1]`, nil), "worker 'w' gave an answer that can't be understood"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, Config{})
				good := newRunner()
				close(good.finish)
				b.join("w", test.handlers, "a")
				b.join("good", good.handlers(), "b")
				got := b.do("run-manual", `{"jobs":[{"id":1,"target":"a"},{"id":7,"target":"b"},{"id":8,"target":"c"}]}`)
				want := fmt.Sprintf(`{"jobs":{"7":"done"},"errors":{"1":%q,"8":"worker serving target 'c' not found"}}`, test.want)
				check.Equal(t, got, want, "answer")
			})
		})
	}
}

// loadOf is how many jobs of target a are thought to be with a worker.
func loadOf(m *Master, w *worker) int {
	m.registry.mu.Lock()
	defer m.registry.mu.Unlock()
	return w.load("a", time.Now())
}

// A client that gives up is not waited for, and its jobs weigh no more.
func TestClientThatLeavesIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, Config{})
		b.join("w", newRunner().handlers(), "a")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = b.runManual(ctx, b.client, jobnet.Request{From: anybody, Data: json.RawMessage(jobList(1))})
		}()
		synctest.Wait()
		w := b.registry.all()[0]
		check.Equal(t, loadOf(b.Master, w), 1, "load")
		cancel()
		<-ended
		check.Equal(t, loadOf(b.Master, w), 0, "load")
	})
}

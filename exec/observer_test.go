package exec_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
)

// heard is what an observer was told.
type heard struct {
	mu     sync.Mutex
	waits  map[string][]time.Duration
	ends   map[string][]string
	claims []error
}

func (h *heard) JobStarted(target string, waited time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waits[target] = append(h.waits[target], waited)
}

func (h *heard) JobEnded(target string, done journal.Done) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends[target] = append(h.ends[target], done.Result)
}

func (h *heard) Claimed(_ time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claims = append(h.claims, err)
}

// Each job is told of once, when it began, with how long its row had waited, and when it ended. Of a
// row that does not say since when it waits only the end is told.
func TestJobsAreObserved(t *testing.T) {
	t.Parallel()
	made := waiting(7, "a")
	made.Created = time.Now().Add(-time.Hour).Unix()
	back := waiting(8, "a") // ran long ago, and was set back
	back.Created, back.Finished = made.Created, time.Now().Add(-time.Minute).Unix()
	h := &heard{waits: map[string][]time.Duration{}, ends: map[string][]string{}}
	f := newFixture(t, newTable(made, back, waiting(9, "b")), func(c *jobexec.Config) { c.Observer = h })
	f.start()
	for range 3 {
		p := f.next()
		if p.spec.Job == 8 {
			p.exit(3)
		} else {
			p.exit(0)
		}
	}
	f.wait("all are at their end", func(s *journal.State) bool { return len(s.Jobs) == 0 && s.Seq > 12 })
	f.stop() // the last turn is over when the worker is
	<-f.ended
	f.ended <- nil
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.waits["a"])
	within := func(got, want time.Duration) bool { return got >= want && got < want+30*time.Second }
	if w := h.waits["a"]; len(w) != 2 || !within(w[0], time.Minute) || !within(w[1], time.Hour) || len(h.waits["b"]) != 0 {
		t.Errorf("waits: %v, want a minute and an hour of a, and none of b", h.waits)
	}
	slices.Sort(h.ends["a"])
	if !slices.Equal(h.ends["a"], []string{"fail", "ok"}) || !slices.Equal(h.ends["b"], []string{"ok"}) {
		t.Errorf("ends: %v", h.ends)
	}
	if len(h.claims) == 0 || errors.Join(h.claims...) != nil {
		t.Errorf("claims: %v", h.claims)
	}
}

package refusals

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"jobd/journal"
	jobnet "jobd/net"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// noted is what refusals have journalled.
type noted struct {
	mu     sync.Mutex
	events []journal.Refused
}

func (n *noted) note(p journal.Payload) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, p.(journal.Refused))
	return nil
}

func (n *noted) all() []journal.Refused {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.events
}

// refuse has a client that wants a target paused be refused.
func (r *Requests) refuse(target, by, reason string) {
	data := jobnet.FieldsOf([]byte(`{"targets":["` + target + `"],"by":"x"}`))
	r.Note(journal.Refused{Request: "pause", About: About(data), Reason: reason, By: by})
}

func TestRefusalsInALoopAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n noted
		r := New(n.note, slog.New(slog.DiscardHandler))
		for i := range 1000 {
			r.refuse("nobody", fmt.Sprint("10.0.0.1:", 1000+i), "target 'nobody' not found")
		}
		r.refuse("nobody", "10.0.0.2:1", "target 'nobody' not found")
		if len(n.all()) != mostRefusals+1 {
			t.Fatalf("%d events, want %d of the one client and one of the other", len(n.all()), mostRefusals)
		}
		if first := n.all()[0]; first.About != `targets=["nobody"]` || first.Times != 0 || first.By != "10.0.0.1:1000" {
			t.Errorf("the first is %+v", first)
		}
		time.Sleep(refusalTime + time.Second)
		synctest.Wait()
		must.Equal(t, len(n.all()), mostRefusals+2, "events after a minute")
		if last := n.all()[mostRefusals+1]; last.Times != 1000-mostRefusals || last.By != "10.0.0.1:1999" {
			t.Errorf("the count is %+v", last)
		}
		r.refuse("nobody", "10.0.0.1:1", "target 'nobody' not found")
		check.Equal(t, len(n.all()), mostRefusals+3, "a minute later it has no event of its own again")
		rest := r.LastWords()
		check.Equal(t, len(rest), 0, "left at the end: %+v", rest)
	})
}

func TestManyClientsTogetherAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n noted
		r := New(n.note, slog.New(slog.DiscardHandler))
		for i := range 10_000 {
			r.refuse("nobody", fmt.Sprintf("[2001:db8::%x]:1", i), "no")
		}
		if len(n.all()) > allRefusals {
			t.Errorf("%d events within a minute", len(n.all()))
		}
		times := 0
		for _, p := range r.LastWords() { // as at the end of the worker's run
			times += p.(journal.Refused).Times
		}
		check.Equal(t, len(n.all())+times, 10_000, "are told, want 10,000")
		time.Sleep(refusalTime)
		synctest.Wait()
	})
}

func TestWhatIsToldOfARefusalIsShort(t *testing.T) {
	t.Parallel()
	var n noted
	r := New(n.note, slog.New(slog.DiscardHandler))
	long := strings.Repeat("ö", 1<<20)
	r.refuse(long, "10.0.0.1:1", "target '"+long+"' not found")
	r.LastWords()
	got := n.all()[0]
	if len(got.About)+len(got.Reason) > 3*mostRefusedFor || !strings.HasPrefix(got.Reason, "target 'ö") {
		t.Errorf("%d and %d bytes: %+v", len(got.About), len(got.Reason), got)
	}
	check.Equal(t, strings.ToValidUTF8(got.About, "?"), got.About, "cut within a character")
}

package page

import (
	"net/http/httptest"
	"testing"
	"time"

	"jobd/journal"
)

// A view of a job that has ended hears of what happens to that job, and of nothing else.
func TestViewsHearOfTheirJob(t *testing.T) {
	t.Parallel()
	p := &Page{}
	of := func(id string) *look {
		r := httptest.NewRequest("GET", "/jobs/"+id, nil)
		r.SetPathValue("id", id)
		return p.look(r)
	}
	mine, same, other := p.expect(of("7")), p.expect(of("7")), p.expect(of("8"))
	if nothing := p.expect(of("")); nothing != nil {
		t.Error("a view of no job expects something")
	}
	p.Happened([]journal.Event{{Job: 9}, {Job: 7}, {Job: 7}})
	for name, happened := range map[string]bool{"mine": isClosed(mine), "the same": isClosed(same), "not the other": !isClosed(other)} {
		if !happened {
			t.Error("not so: ", name)
		}
	}
	if isClosed(p.expect(of("7"))) {
		t.Error("it is told twice")
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// However many views are looked at, they take a share of the time, and none gets too old.
func TestViewsTakeTheirShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		views int
		took  time.Duration
		want  time.Duration
	}{
		{1, 5 * time.Millisecond, soon}, {20, 5 * time.Millisecond, 5 * time.Second}, {1, time.Second, longestPause}, {200, 20 * time.Millisecond, longestPause},
	} {
		p := &Page{}
		p.streams.live = map[string]*stream{}
		var one *stream
		for i := range c.views {
			one = &stream{took: c.took}
			p.streams.live[string(rune('a'+i))] = one
		}
		if got := p.pause(one, soon, c.took); got != c.want {
			t.Errorf("%d views that take %v: %v, want %v", c.views, c.took, got, c.want)
		}
	}
}

package page

import (
	"html/template"
	"slices"
	"testing"
	"time"

	"jobd/journal"
)

// A view that rests is made anew when something happens to its job, when one more looks at it, and not when somebody
// else stops looking at the same job. Who looks later gets what the next making gives, though it is the same again.
func TestViewsHearOfTheirJob(t *testing.T) {
	t.Parallel()
	p := &Page{}
	p.streams.live = map[string]*stream{}
	views := map[string]*stream{"a": {job: 7}, "b": {job: 7}, "other": {job: 8}, "none": {}}
	for key, one := range views {
		one.wake, one.watchers = make(chan struct{}, 1), map[chan template.HTML]struct{}{}
		p.streams.live[key] = one
	}
	roused := func(want ...string) {
		t.Helper()
		var got []string
		for key, one := range views {
			select {
			case <-one.wake:
				got = append(got, key)
			default:
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	p.Happened([]journal.Event{{Job: 9}, {Job: 0}})
	roused()
	p.Happened([]journal.Event{{Job: 9}, {Job: 7}})
	roused("a", "b")
	p.Happened([]journal.Event{{Job: 7}})
	p.Happened([]journal.Event{{Job: 7}, {Job: 8}})
	roused("a", "b", "other")
	delete(p.streams.live, "b")
	p.Happened([]journal.Event{{Job: 7}})
	roused("a")

	one := views["a"]
	first := make(chan template.HTML, 1)
	one.watchers[first] = struct{}{}
	p.tell(one, "as it was")
	if got := <-first; got != "as it was" {
		t.Error(got)
	}
	p.tell(one, "as it was")
	second := one.join()
	roused("a")
	select {
	case got := <-second:
		t.Errorf("who looks later, at a newer page, gets %q", got)
	case got := <-first:
		t.Errorf("%q is told twice", got)
	default:
	}
	p.tell(one, "as it was")
	if got := <-second; got != "as it was" {
		t.Error(got)
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
		if got := p.pause(one, soon, longestPause, c.took); got != c.want {
			t.Errorf("%d views that take %v: %v, want %v", c.views, c.took, got, c.want)
		}
	}
}

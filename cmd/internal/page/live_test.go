package page

import (
	"testing"
	"time"
)

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

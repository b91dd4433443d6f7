package pulse

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"jobd/store/storetest/check"
)

// said is what a pulse logs, for a test that looks at it while nothing runs.
func said(out *strings.Builder) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

const limit = 8 * time.Second

// watch looks at loops until the test ends.
func watch(t *testing.T, c Config) *Pulse {
	t.Helper()
	c.Limit = limit
	p := New(c)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- p.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-over })
	return p
}

// A loop stands still that is at one piece of work for too long: not one that waits, nor one that
// has ever new work.
func TestStandstill(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		turn  func(*Loop) // every second
		still bool
	}{
		"it hangs":                     {func(*Loop) {}, true},
		"it works, each time anew":     {func(l *Loop) { l.Works() }, false},
		"it waits, each time anew":     {func(l *Loop) { l.Waits() }, false},
		"it works and waits":           {func(l *Loop) { l.Works(); l.Waits() }, false},
		"it is at work at every look":  {func(l *Loop) { l.Waits(); l.Works() }, false},
		"it waits, and works no more":  {func(l *Loop) { l.Waits(); l.Waits() }, false},
		"it waits while others let it": {func(l *Loop) { l.Works(); l.Works(); l.Waits() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := watch(t, Config{})
				l, other := p.Loop("turns"), p.Loop("claims")
				l.Works()
				other.Waits()
				for range 60 {
					time.Sleep(time.Second)
					test.turn(l)
				}
				still := p.Still()
				if (len(still) == 1 && still[0].Loop == "turns") != test.still || len(still) > 1 {
					t.Errorf("still: %v, want it: %v", still, test.still)
				}
			})
		})
	}
}

// It is told when a loop comes to stand still, and when it goes on, once each; the watchdog hears
// of it at every look.
func TestStandstillIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		all, bad := 0, 0
		p := watch(t, Config{Logger: said(&log), OnLook: func(p *Pulse) {
			if all++; len(p.Still()) > 0 {
				bad++
			}
		}})
		began := time.Now()
		l := p.Loop("turns")
		l.Works()
		time.Sleep(3*limit + time.Second)
		check.Equal(t, p.Still()[0].Since.Sub(began), limit/looks, "it is still since … after it began")
		l.Waits()
		time.Sleep(limit)
		synctest.Wait()
		if still := p.Still(); len(still) > 0 {
			t.Errorf("still: %v", still)
		}
		want := `level=ERROR msg="a loop hangs: its present step does not end" loop=turns for=8s
level=WARN msg="a loop that hung goes on" loop=turns
`
		check.Equal(t, log.String(), want, "it said")
		if all != 16 || bad != 8 {
			t.Errorf("%d of %d looks saw it", bad, all)
		}
	})
}

// A loop with nothing to do that would hang if it had is found: it is pinged, and goes round.
func TestPing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := watch(t, Config{})
		l, pinged, hang := p.Loop("turns"), make(chan struct{}, 1), make(chan struct{})
		p.Ping(func() {
			select {
			case pinged <- struct{}{}:
			default:
			}
		})
		go func() {
			<-pinged
			l.Works()
			<-hang
		}()
		time.Sleep(limit + time.Second)
		if still := p.Still(); len(still) > 0 {
			t.Errorf("still after so short a time: %v", still)
		}
		time.Sleep(limit)
		if still := p.Still(); len(still) != 1 {
			t.Errorf("still: %v", still)
		}
		close(hang)
	})
}

// Nobody needs to watch a loop.
func TestNobodyWatches(t *testing.T) {
	t.Parallel()
	var l *Loop
	l.Works()
	l.Waits()
}

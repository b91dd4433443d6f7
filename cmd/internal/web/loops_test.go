package web

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"jobd/cmd/internal/pulse"
)

// A loop that hangs in a piece of work makes the process ill; one that waits for something, for as
// long as it takes, does not.
func TestLoopsThatStandStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		beats := pulse.New(pulse.Config{})
		go func() { _ = beats.Run(ctx) }()
		hangs, waits := beats.Loop("turns"), beats.Loop("mirror")
		waits.Works()
		waits.Waits()
		why := Loops(beats)
		hangs.Works()
		if reasons := why(); len(reasons) > 0 {
			t.Errorf("at once: %+v", reasons)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if reasons := why(); len(reasons) != 1 || reasons[0].What != "loop turns" || reasons[0].Since.IsZero() {
			t.Errorf("later: %+v", reasons)
		}
		hangs.Waits()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if reasons := why(); len(reasons) > 0 {
			t.Errorf("when it goes on: %+v", reasons)
		}
		stop()
		synctest.Wait()
	})
}

package operator

import (
	"cmp"
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"

	"jobd/cmd/internal/exit"
)

// How long to wait before something is tried again, at first and at most.
const (
	firstRetry = 250 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// Lasting is something that goes on through outages: a look that is taken again and again.
type Lasting struct {
	Outlives func(error) bool // tells whether an error may be over after a while
	Tell     func(error)      // is told of a trouble, once for as long as it is the same
	Most     time.Duration    // between two attempts behind an error; 0: lastRetry
}

// Run takes a look until it says that all is over, with its rest until the next one being negative,
// or fails for good. Behind an error it rests ever longer. Its error is the look's, or says why ctx
// has ended.
func (l Lasting) Run(ctx context.Context, look func() (rest time.Duration, err error)) error {
	retry := backoff.NewExponentialBackOff()
	retry.MaxInterval = cmp.Or(l.Most, lastRetry)
	retry.InitialInterval = min(firstRetry, retry.MaxInterval)
	told := ""
	for {
		rest, err := look()
		switch {
		case err == nil && rest < 0:
			return nil
		case err == nil:
			told = ""
			retry.Reset()
		case ctx.Err() != nil || !l.Outlives(err):
			return exit.Why(ctx, err)
		default:
			if err.Error() != told {
				told = err.Error()
				l.Tell(err)
			}
			rest = retry.NextBackOff()
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return exit.Why(ctx, ctx.Err())
		}
	}
}

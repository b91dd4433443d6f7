package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Retry waits out outages, with growing intervals and jitter, and reports each
// cause once, not each try. It is for one goroutine.
type Retry struct {
	logger  *slog.Logger
	what    string
	backoff *backoff.ExponentialBackOff
	told    string
}

// Intervals between tries: 100 ms at first, 1.5 s at most, so that what is back is used within two
// seconds.
const (
	firstInterval = 100 * time.Millisecond
	maxInterval   = time.Second
)

// NewRetry makes a Retry for something that is named in the log.
func NewRetry(logger *slog.Logger, what string) *Retry {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = firstInterval, maxInterval
	return &Retry{logger: logger, what: what, backoff: b}
}

// Wait reports cause where it is new and waits for the time of the next try. It
// fails when ctx ends before.
func (r *Retry) Wait(ctx context.Context, cause error) error {
	if text := cause.Error(); text != r.told {
		r.told = text
		r.report(cause)
	}
	timer := time.NewTimer(r.backoff.NextBackOff())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// report logs what keeps us from the table; what waiting cannot mend is an error. Of a server that
// is compared with the journal first the mirror itself says all there is.
func (r *Retry) report(cause error) {
	var unusable *Unusable
	var another *AnotherServer
	level := slog.LevelWarn
	switch {
	case errors.As(cause, &unusable):
		level = slog.LevelError
	case errors.As(cause, &another):
		level = slog.LevelDebug
	}
	r.logger.Log(context.Background(), level, r.what+" failed; trying again until it succeeds", "error", cause)
}

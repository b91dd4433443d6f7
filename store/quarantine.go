package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// batchSize is how many events go into one transaction at most.
const batchSize = 512

// QuarantinedRow is a row that can't be updated for now, for people to see.
type QuarantinedRow struct {
	Job    int64
	Target string // of the claim; "" where it is not known
	Wanted string // the status that it gets next
	Reason string
	Since  time.Time
}

// owedRow is what a job's row is owed while it can't be updated.
type owedRow struct {
	changes []Change // of one claim each, the oldest first, which is the one that is tried
	fate    Fate     // of the newest try
	reason  string
	since   time.Time // of the first try of this change, by this process
	refused time.Time // of the first try that was refused
	pause   time.Duration
	next    time.Time // of the next try
}

// first is the oldest event that the row does not show.
func (a *owedRow) first() uint64 { return a.changes[0].first }

// Retry waits out outages, with growing intervals and jitter, and reports each
// cause once, not each try, and the end. It is for one goroutine.
type Retry struct {
	logger  *slog.Logger
	what    string
	backoff *backoff.ExponentialBackOff
	told    map[string]bool // causes
	since   time.Time       // of the outage; zero: there is none
	level   slog.Level      // at which it was reported
}

// mostCauses is how many causes of one outage are reported: some tell a figure that changes.
const mostCauses = 10

// Intervals between tries: 100 ms at first, 1 s at most, each half more or less by chance, so that what is back is used within two
// seconds.
const (
	firstInterval = 100 * time.Millisecond
	maxInterval   = time.Second
)

// NewRetry makes a Retry for something that is named in the log, with what it is about: keys and
// values as slog takes them.
func NewRetry(logger *slog.Logger, what string, about ...any) *Retry {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = firstInterval, maxInterval
	return &Retry{logger: logger.With(about...), what: what, backoff: b, told: make(map[string]bool)}
}

// Wait reports cause where it is new and waits for the time of the next try. It
// fails when ctx ends before.
func (r *Retry) Wait(ctx context.Context, cause error) error {
	if r.since.IsZero() {
		r.since = time.Now()
	}
	if text := cause.Error(); !r.told[text] && len(r.told) < mostCauses {
		r.told[text] = true
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
	if len(r.told) == 1 || level > r.level {
		r.level = level
	}
	r.logger.Log(context.Background(), level, r.what+" failed; trying again until it succeeds", "error", cause)
}

// Over reports that the outage, if there was one, is at its end, and how long it was: as a warning
// too, so that a log that tells of the one tells of the other.
func (r *Retry) Over() {
	if r.since.IsZero() {
		return
	}
	level := min(r.level, slog.LevelWarn)
	after := time.Since(r.since).Round(time.Millisecond)
	r.logger.Log(context.Background(), level, r.what+" succeeds again", "after", after)
	r.since = time.Time{}
	clear(r.told)
	r.backoff.Reset()
}

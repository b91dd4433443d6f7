package master

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	jobnet "jobd/net"
)

// answerTimeout is how long a worker may take for anything but a manual job.
const answerTimeout = 5 * time.Second

// ask sends a request that a worker answers at once, and waits for it no longer than answerTimeout.
func (m *Master) ask(ctx context.Context, w *worker, typ string, data any) ([]byte, error) {
	return requestWithin(ctx, answerTimeout, w.link, typ, data)
}

// noAnswerError is the failure of a request whose answer did not come in time.
type noAnswerError struct{ within time.Duration }

func (e *noAnswerError) Error() string { return fmt.Sprintf("no answer within %v", e.within) }

// requestWithin sends a request and waits so long for its answer. A noAnswerError is its failure
// where none comes.
func requestWithin(ctx context.Context, timeout time.Duration, link *jobnet.Link, typ string, data any) ([]byte, error) {
	silent := &noAnswerError{timeout}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, silent)
	defer cancel()
	answer, err := link.Request(ctx, typ, data)
	if errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) == error(silent) {
		err = silent
	}
	return answer, err
}

// told is a worker's failure as clients are told: its own words, or why there are none.
func told(err error) string {
	var remote *jobnet.RemoteError
	switch {
	case errors.As(err, &remote):
		return remote.Text
	case errors.Is(err, jobnet.ErrLinkClosed):
		return "connection lost"
	}
	return err.Error()
}

// fanOut is how many workers are asked at once for one request of a client.
const fanOut = 256

// each calls do for every worker, fanOut at a time, and waits for all.
func each(workers []*worker, do func(i int, w *worker)) {
	slots := make(chan struct{}, fanOut)
	var all sync.WaitGroup
	for i, w := range workers {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			do(i, w)
		})
	}
	all.Wait()
}

package exec

import (
	"context"
	"errors"
	"fmt"

	"jobd/journal"
)

// Memory never runs ahead of the journal: what is to be journalled is appended first, without the worker's lock, and
// memory changes when that is durable. There are two ways: append, for what is only wanted, fails when the disk is
// full, and what was wanted stays as it is, to be tried again; record, for what has happened already, waits for room.

// append makes drafts durable. Any error but a full disk or a contradiction means that the
// journal takes nothing more, and ends the worker.
func (w *Worker) append(drafts ...journal.Draft) ([]journal.Event, error) {
	events, err := w.Recorder.Append(drafts...)
	if err != nil && !errors.Is(err, journal.ErrFull) && illegal(err) == nil {
		w.fail(err)
	}
	return events, err
}

// illegal is the contradiction among an error's causes; nil where there is none.
func illegal(err error) *journal.IllegalError {
	var contradiction *journal.IllegalError
	if errors.As(err, &contradiction) {
		return contradiction
	}
	return nil
}

// record is append for what has happened already, and is known only here until
// it is written: a full disk is waited out.
func (w *Worker) record(drafts ...journal.Draft) ([]journal.Event, error) {
	events, err := w.append(drafts...)
	if !errors.Is(err, journal.ErrFull) {
		return events, err
	}
	ctx, cancel := w.until(w.hurry)
	defer cancel()
	w.Disk.Release()
	events, err = w.append(drafts...)
	for retry := w.Retry("append to the journal"); errors.Is(err, journal.ErrFull); {
		if retry.Wait(ctx, err) != nil {
			return nil, err
		}
		events, err = w.append(drafts...)
	}
	return events, err
}

// until is a context that ends when the worker has failed, or a channel is closed.
func (w *Worker) until(closed <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-w.failed:
			cancel()
		case <-closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// fail ends the worker: without a journal nothing may happen any more.
func (w *Worker) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		w.failure = fmt.Errorf("worker %s: %w", w.Name, err)
		close(w.failed)
	}
}

func (w *Worker) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// pause waits before something is tried again. It is false when the worker stops.
func (w *Worker) pause(retry Retry, cause error) bool {
	ctx, cancel := w.until(w.stop)
	defer cancel()
	return retry.Wait(ctx, cause) == nil
}

package exec

import (
	"errors"
	"fmt"
	"time"

	"jobd/journal"
)

// Memory never runs ahead of the journal: what is to be journalled is appended first, without the
// worker's lock, and memory changes when that is durable. There are two ways: append, for what is
// only wanted, fails when the disk is full, and what was wanted stays as it is, to be tried again;
// record, for what has happened already, waits for room.

// append makes drafts durable. Any error but a full disk or a contradiction means that the journal
// takes nothing more, and ends the worker.
func (w *Worker) append(drafts ...journal.Draft) ([]journal.Event, error) {
	events, err := w.Recorder.Append(drafts...)
	if err != nil && !errors.Is(err, journal.ErrFull) && illegal(err) == nil {
		w.fail(err)
	}
	w.tell(events)
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

// record is append for what has happened already, and is known only here until it is written: a
// full disk is waited out.
func (w *Worker) record(drafts ...journal.Draft) ([]journal.Event, error) {
	events, err := w.append(drafts...)
	if !errors.Is(err, journal.ErrFull) {
		return events, err
	}
	w.Disk.Release()
	events, err = w.append(drafts...)
	if errors.Is(err, journal.ErrFull) {
		defer w.noteFull(err)()
	}
	retry := w.Retry("append to the journal")
	for errors.Is(err, journal.ErrFull) {
		if retry.Wait(w.patient, err) != nil {
			return nil, err
		}
		events, err = w.append(drafts...)
	}
	if err == nil {
		retry.Over()
	}
	return events, err
}

// Note journals what was asked of the worker, where that has no event of its own. What is to follow
// it must wait until it is durable. Nothing is noted once the end of the worker's run is
// journalled.
func (w *Worker) Note(payload journal.Payload) error {
	w.noting.Lock()
	defer w.noting.Unlock()
	if w.closed {
		return errStopping
	}
	_, err := w.append(journal.Draft{Payload: payload})
	return err
}

// journalEnd journals that the worker's run ended in order, as the last event of it.
func (w *Worker) journalEnd() error {
	w.noting.Lock()
	defer w.noting.Unlock()
	w.closed = true
	var drafts []journal.Draft
	if w.LastWords != nil {
		for _, payload := range w.LastWords() {
			drafts = append(drafts, journal.Draft{Payload: payload})
		}
	}
	drafts = append(drafts, journal.Draft{Payload: journal.Closed{Reason: w.closing()}})
	_, err := w.Recorder.Append(drafts...)
	if errors.Is(err, journal.ErrFull) {
		w.Disk.Release()
		_, err = w.Recorder.Append(drafts...)
	}
	return err
}

// fail ends the worker: without a journal nothing may happen any more.
func (w *Worker) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		w.failure = fmt.Errorf("worker %s: %w", w.Name, err)
		w.board.Fail()
		w.endWhole()
	}
}

func (w *Worker) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// rest waits. It is false when the worker stops.
func (w *Worker) rest(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.active.Done():
		return false
	}
}

// pause waits before something is tried again. It is false when the worker stops.
func (w *Worker) pause(retry Retry, cause error) bool { return retry.Wait(w.active, cause) == nil }

package logging

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// The bounds of a queue: how much may wait for a sink that takes nothing, and how long the end of
// the program, or the reopening of a file, waits for it.
const (
	mostWaiting = 1 << 20 // bytes
	patience    = time.Second
)

// queue is a writer that never blocks: a goroutine of its own writes to the sink, and drops and
// counts what the sink does not accept. A pipe whose reader hangs, a terminal that was stopped, a
// disk that is full or gone must not stop the daemon.
//
//	log ──► Write ──► waiting ──► goroutine ──► sink
//	           └────► lost (a number), told in the sink as soon as it takes something again
type queue struct {
	sink io.Writer
	note func(lost int, why error) []byte // a record that tells of lost ones
	fail func(err error)                  // told of the first error in a row; nil: nobody

	mu      sync.Mutex
	wake    sync.Cond
	waiting []item
	bytes   int // of the records that wait
	closed  bool

	// Of the goroutine.
	refused int   // records that the sink refused since it last took one
	cut     bool  // it took a part of the last of them
	why     error // the first error of these
}

// item is one thing for the goroutine to do, or a gap: records that were dropped in this place.
type item struct {
	record []byte
	call   func()
	lost   int
}

// newQueue starts the queue's goroutine, which ends after close.
func newQueue(sink io.Writer, note func(int, error) []byte, fail func(error)) *queue {
	q := &queue{sink: sink, note: note, fail: fail}
	q.wake.L = &q.mu
	go q.run()
	return q
}

// Write takes a record, or drops it. It never fails.
func (q *queue) Write(record []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := len(q.waiting) - 1
	switch {
	case q.closed:
	case q.bytes+len(record) <= mostWaiting:
		q.bytes += len(record)
		q.push(item{record: bytes.Clone(record)})
	case last >= 0 && q.waiting[last].lost > 0:
		q.waiting[last].lost++
	default:
		q.push(item{lost: 1})
	}
	return len(record), nil
}

// push adds to what waits. Callers must hold q.mu.
func (q *queue) push(i item) {
	q.waiting = append(q.waiting, i)
	q.wake.Signal()
}

// do has the goroutine call something between two records, and waits for that, but not for long. It
// tells whether it was done.
func (q *queue) do(call func()) bool {
	done := make(chan struct{})
	q.mu.Lock()
	closed := q.closed
	if !closed {
		q.push(item{call: func() { defer close(done); call() }})
	}
	q.mu.Unlock()
	if closed {
		return false
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// close has the goroutine write what waits, as far as the sink accepts it in time, and ends it.
// Later records are dropped.
func (q *queue) close(last func()) bool {
	done := q.do(last)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.waiting = true, nil
	q.wake.Signal()
	return done
}

func (q *queue) run() {
	for {
		next, end := q.next()
		switch {
		case end:
			return
		case next.call != nil:
			next.call()
		case next.lost > 0:
			q.write(q.note(next.lost, errSlow), next.lost)
		default:
			q.write(next.record, 1)
		}
	}
}

// errSlow is why records are dropped that the sink was never offered.
var errSlow = errors.New("they came faster than they could be written")

// next waits for something to do.
func (q *queue) next() (i item, end bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 && !q.closed {
		q.wake.Wait()
	}
	if len(q.waiting) == 0 {
		return item{}, true
	}
	i, q.waiting[0] = q.waiting[0], item{}
	q.waiting = q.waiting[1:]
	q.bytes -= len(i.record)
	return i, false
}

// write gives the sink a text that stands for so many records. If the sink refused records before, a
// note about those goes first.
func (q *queue) write(text []byte, records int) {
	if q.refused > 0 {
		text = append(q.note(q.refused, q.why), text...)
		if q.cut {
			text = append([]byte("\n"), text...)
		}
	}
	n, err := q.sink.Write(text)
	if err == nil {
		q.refused, q.why, q.cut = 0, nil, false
		return
	}
	first := q.refused == 0
	q.refused += records
	q.cut = q.cut || n > 0
	if first {
		q.why = err
		if q.fail != nil {
			q.fail(err)
		}
	}
}

// patient is a writer that waits for another one, but not for long.
type patient struct{ w io.Writer }

// Patient gives a writer for the last words of a program. It gives up what w does not accept in
// time, so that a reader that hangs does not keep the program from ending.
func Patient(w io.Writer) io.Writer { return patient{w} }

// Write implements io.Writer.
func (p patient) Write(text []byte) (int, error) {
	var failed error
	q := newQueue(p.w, nil, func(err error) { failed = err })
	_, _ = q.Write(text)
	if !q.close(func() {}) {
		return 0, fmt.Errorf("nobody has read this within %v", patience)
	}
	return len(text), failed
}

package main

import (
	"context"

	"jobd/journal"
	"jobd/journal/replay"
	jobnet "jobd/net"
)

// mostReaders is how many clients the journal is searched for at once for the end of a job.
const mostReaders = 4

// Ended implements service.Process.
func (d *daemon) Ended(ctx context.Context, job int64) (done *journal.Event, attempt int, err error) {
	select {
	case d.readers <- struct{}{}:
		defer func() { <-d.readers }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	r, err := replay.Open(d.journalDir)
	if err != nil {
		return nil, 0, jobnet.Refusal(d.toldOfJournal(err))
	}
	defer r.Close()
	defer d.memory.reading()()
	kinds := []journal.Kind{journal.KindRunning, journal.KindDone}
	for e, err := range r.Events(ctx, journal.Filter{Job: job, Kinds: kinds, Output: true}) {
		if err != nil {
			return nil, 0, jobnet.Refusal(d.toldOfJournal(err))
		}
		switch payload := e.Payload.(type) {
		case journal.Running:
			done, attempt = nil, payload.Attempt
		case journal.Done:
			done = &e
		}
	}
	return done, attempt, nil
}

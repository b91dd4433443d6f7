package main

import (
	"context"
	"sync/atomic"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/master"
	jobnet "jobd/net"
	"jobd/store"
)

// notices is what parts tell others that are made after them. Each is given it when it is made; who
// listens is said once, when all are there, and before any of them works.
//
//	table  ── a server that it did not know ──► mirror
//	table  ── a connection of it is lost ─────► worker
//	mirror ── the table is back ──────────────► worker, table
//	mirror ── rows wait again ────────────────► worker, masters
//	worker ── it serves other targets ────────► masters
//	reload ── rates are other ones ───────────► masters
//
// The listener has heard a notice when the method returns: the mirror relies on that. Only a table
// has something to tell before anybody listens, while it is opened; the mirror asks by itself which
// server it is on, when it begins. The methods are safe for concurrent use, and don't block.
type notices struct{ to atomic.Pointer[listeners] }

// listeners are the parts that notices are for.
type listeners struct {
	mirror *store.Mirror
	worker *jobexec.Worker
	agents []*master.Agent
}

func (n *notices) connect(to listeners) { n.to.Store(&to) }

// tell passes a notice on, if anybody listens yet.
func (n *notices) tell(notice func(*listeners)) {
	if to := n.to.Load(); to != nil {
		notice(to)
	}
}

// serverMet: a connection has reached another database server than the table was last found on.
func (n *notices) serverMet() { n.tell(func(to *listeners) { to.mirror.CheckServer() }) }

// tableLost: the connection that holds the worker's name and mark is gone, and perhaps the table is
// out of reach.
func (n *notices) tableLost() { n.tell(func(to *listeners) { to.worker.LookAtTable() }) }

// tableBack: the table can be reached again. It may not have answered at the start, or be another
// one now, so it is examined once more; the mirror does not wait for that.
func (n *notices) tableBack() {
	n.tell(func(to *listeners) { to.worker.PollAll() })
}

// givenBack: rows of these targets wait again that were this worker's. It may run them itself, if
// it still serves them, and so may every other worker that does.
func (n *notices) givenBack(targets []string) {
	n.tell(func(to *listeners) {
		to.worker.GivenBack(targets)
		for _, agent := range to.agents {
			agent.Poke(targets)
		}
	})
}

// changed: the worker is to be registered anew, with other targets.
func (n *notices) changed() {
	n.tell(func(to *listeners) {
		for _, agent := range to.agents {
			agent.Changed()
		}
	})
}

// mostReaders is how many clients the journal is searched for at once for the end of a job.
const mostReaders = 4

// endedEvents is how many starts and ends of a job are read for its end: a row that recurs has ever more.
const endedEvents = 10

// Ended implements service.Process.
func (d *daemon) Ended(ctx context.Context, job int64, has func(target string) bool) (done *journal.Event, attempt int, err error) {
	select {
	case d.readers <- struct{}{}:
		defer func() { <-d.readers }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	defer d.memory.reading()()
	kinds := []journal.Kind{journal.KindRunning, journal.KindDone}
	for e, err := range d.journal.Reader().Events(ctx, journal.Filter{Job: job, Kinds: kinds, Output: true, Has: has, Last: endedEvents}) {
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

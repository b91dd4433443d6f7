package host

import (
	"fmt"
	"sync"
	"sync/atomic"

	"jobd/exec/runner/wire"
)

// maxStarts is how many starts may be under way at once. Each keeps a thread and one of Go's
// processors until the launcher is executed.
const maxStarts = 2

// requests does what one worker asks for. Starts that came together are done together.
type requests struct {
	jobs   *jobs
	local  *local
	env    []string // for the starts that follow
	starts []notedStart
}

// notedStart is a start that is to be done. Its job is known.
type notedStart struct {
	job  *job
	what spec
}

// do does what a message asks for. A start it only notes, for run to do.
func (r *requests) do(m *wire.Message) error {
	switch m.Kind {
	case wire.Environment:
		r.env = m.Env
	case wire.Start:
		switch j := r.jobs.add(m.ID, m.Limit); {
		case j == nil:
		case m.Pool != "":
			c := newTurn(m, j)
			r.jobs.started(j, c, nil)
			r.local.pools.start(m.Pool, c)
		default:
			r.starts = append(r.starts, notedStart{j, spec{m.Argv, m.Dir, r.env, m.MaxOutput, m.Limit}})
		}
	case wire.Signal:
		r.run() // it may be for one of the noted starts
		r.jobs.signal(m.ID, m.Signo)
	case wire.Fetch:
		r.jobs.fetch(m.ID)
	case wire.Peek:
		r.run() // as above
		r.jobs.peek(m.ID, m.Peek)
	case wire.Forget:
		r.jobs.forget(m.ID)
	case wire.Pools:
		r.local.pools.set(m.Wanted)
	case wire.Withdraw:
		if c := r.jobs.turn(m.ID); c != nil {
			r.local.pools.withdraw(c)
		}
	case wire.Recycle:
		r.local.pools.recycle(m.Targets, m.Text, m.Wanted)
	default:
		return fmt.Errorf("message of kind %d: %w", m.Kind, wire.ErrMalformed)
	}
	return nil
}

// run does the noted starts, maxStarts at a time. It returns when each has happened or failed.
func (r *requests) run() {
	var next atomic.Int64
	work := func() {
		for i := next.Add(1); i <= int64(len(r.starts)); i = next.Add(1) {
			s := &r.starts[i-1]
			c, err := r.local.start(s.what, s.job)
			r.jobs.started(s.job, c, err)
		}
	}
	var others sync.WaitGroup
	for range min(len(r.starts), maxStarts) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	clear(r.starts)
	r.starts = r.starts[:0]
}

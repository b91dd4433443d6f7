package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"jobd/journal"
)

// Whether the table can be reached, and on which server it is: where that is another one, its rows are
// compared with the journal and mended before anything is claimed there.

// outage tells whether the table can be reached. Its methods are safe for concurrent use.
type outage struct {
	onReturn func() // is called when it can again; nil: nobody cares

	mu    sync.Mutex
	away  chan struct{} // closed while it cannot
	why   error         // nil while it can
	since time.Time     // of the last change; zero: there was none
	ended uint64        // outages that are over
}

// Away gives a channel that is closed as long as the table cannot be reached.
func (o *outage) Away() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.away
}

// Reachable tells whether the mirror reaches the table, by its last try: why is nil where it does.
// since is when that changed last; zero: it never did.
func (o *outage) Reachable() (since time.Time, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.since, o.why
}

// Outages counts how often the table could be reached again.
func (o *outage) Outages() (ended uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

// setAway notes why the table can't be reached, nil where it can, and tells whether it can again.
func (o *outage) setAway(why error) (returned bool) {
	o.mu.Lock()
	changed := (o.why == nil) != (why == nil)
	o.why = why
	if changed {
		o.since = time.Now()
	}
	if changed && why != nil {
		close(o.away)
	} else if changed {
		o.ended++
		o.away = make(chan struct{})
	}
	o.mu.Unlock()
	returned = changed && why == nil
	if returned && o.onReturn != nil {
		o.onReturn()
	}
	return returned
}

// comparing marks a context.
type comparing struct{}

// Comparing gives a context for the claims by which rows are compared with the journal: they are
// made on a server that is not confirmed, too.
func Comparing(ctx context.Context) context.Context {
	return context.WithValue(ctx, comparing{}, true)
}

// IsComparing tells whether a claim is made to compare rows with the journal.
func IsComparing(ctx context.Context) bool { return ctx.Value(comparing{}) != nil }

// confirmServer finds out, where that is not known, which server the table is on, and lets claims
// be made there once its rows were compared with the journal. New events wait for that.
//
// That it is done is appended before claims are let on. Killed before, the next start does it
// again; killed after, the next start finds the server that the journal names.
func (m *Mirror) confirmServer(ctx context.Context) error {
	retry := NewRetry(m.Logger, "compare the table's server with the journal")
	for m.isDue() {
		err := m.confirmOnce(ctx)
		var failed tableError
		switch {
		case err == nil:
			retry.Over()
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.As(err, &failed):
			return err
		case IsAway(err):
			m.setAway(err)
		}
		m.CheckServer()
		if err := retry.Wait(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// confirmOnce asks for the server once, and goes back where it is another one.
func (m *Mirror) confirmOnce(ctx context.Context) error {
	m.begun()
	id, err := m.Table.Server(ctx)
	if err != nil {
		return tableError{err}
	}
	switch {
	case id == m.server:
	case m.server == "":
		err = m.append(ctx, []journal.Draft{{Payload: journal.Server{Server: id}}})
	default:
		err = m.compareServer(ctx, id)
	}
	if err != nil {
		return err
	}
	m.Table.Confirm(id)
	m.server = id
	if !m.setAway(nil) && !m.confirmed && id != "" && m.OnReturn != nil {
		m.OnReturn()
	}
	m.confirmed = true
	return nil
}

// compareServer brings the rows of a server that the journal does not know up to what the journal
// says of the last minutes.
func (m *Mirror) compareServer(ctx context.Context, id string) error {
	m.Logger.Warn("the table is on another server; its rows are compared with the journal before anything is claimed",
		"server", id, "before", m.server)
	m.confirmed = false
	if m.back == nil || m.back.server != id {
		m.back = &comparison{mirror: m, server: id, met: time.Now(), mended: map[int64]bool{}, begun: map[int64]bool{}, left: map[int64]string{}}
	}
	if err := m.back.run(ctx); err != nil {
		return err
	}
	select { // other workers have their time to compare their rows
	case <-time.After(time.Until(m.back.met.Add(m.Together))):
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.back.others {
		if err := m.back.run(ctx); err != nil {
			return err
		}
	}
	now, err := m.Table.Server(ctx)
	if err != nil {
		return tableError{err}
	}
	if now != id {
		return tableError{errors.New("it changed again, to " + now)}
	}
	met := journal.Server{Server: id, Before: m.server, Mended: len(m.back.mended), Left: len(m.back.left)}
	if err := m.append(ctx, []journal.Draft{{Payload: met}}); err != nil {
		return err
	}
	told := []any{"server", id, "mended", met.Mended, "left", met.Left}
	if met.Left > 0 {
		ids := slices.Sorted(maps.Keys(m.back.left))
		told = append(told, "some", ids[:min(len(ids), mostNamed)],
			"remedy", "jobctl journal diff lists them and rows changed by others; jobctl journal reapply shows and makes the updates")
	}
	m.Logger.Warn("the rows of the last minutes were compared with the journal", told...)
	m.back = nil
	return nil
}

// mostNamed is how many rows a message names of those that it counts.
const mostNamed = 8

// tableError is the table's part in the failure of a comparison: it is tried again.
type tableError struct{ error }

// Unwrap gives the table's error.
func (e tableError) Unwrap() error { return e.error }

// serverCheck tells when the mirror must ask which server this is: once its context has ended. Its
// methods are safe for concurrent use.
type serverCheck struct {
	mu    sync.Mutex
	known context.Context
	end   context.CancelFunc
}

// CheckServer has the mirror ask which server the table is on, before it does anything else. It is
// called when a connection reached another one than was confirmed. It does not block.
func (s *serverCheck) CheckServer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

// begun notes that the server is asked now: a CheckServer from here on needs another look.
func (s *serverCheck) begun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.end = context.WithCancel(context.Background())
}

// asked gives the context that ends when the mirror must ask the server again.
func (s *serverCheck) asked() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

// isDue tells whether the mirror must ask the server.
func (s *serverCheck) isDue() bool { return s.asked().Err() != nil }

// How far a comparison goes back from what the mirror did last. A replica that lags by more is not
// mended.
const (
	backAge    = 10 * time.Minute
	backEvents = 100_000
)

// compareRows is how many rows are compared in one go.
const compareRows = 500

// comparison compares the rows of a server that the journal does not know with the journal, and
// mends those that are behind. A row was claimed here, ran here, and is on that server as it was
// before:
//
//	the row reads                the journal says                done
//	accepted, running, ours      done, running, released         brought to it
//	accepted, running, ours      retried                         given back
//	an earlier claim of ours     done, accepted, running         given back, then as below
//	waiting, manual              done, accepted, running         claimed with the journal's token, then brought to it
//	waiting, manual              ignored                         ignored
//	delayed, as a claim of ours  done, accepted, running         claimed with the journal's token, then brought to it,
//	has found it                                                 not started
//	delayed                      ignored                         ignored
//	anything else                                                left as found, and told
//
// A row that comes back may be behind by runs of several workers. Each brings it to what its own
// journal says, so a worker that found it before its own run compares it once more when the others
// have had their time.
//
// Killed between two steps, or cut off, the next comparison finds what was done and goes on from
// there.
type comparison struct {
	mirror  *Mirror
	server  string
	met     time.Time        // when it was noticed
	mended  map[int64]bool   // rows that were brought up to date
	begun   map[int64]bool   // rows that were tried to
	page    []journal.Event  // of the history, as it was read last
	journal error            // why the history could not be read
	left    map[int64]string // rows that were not, and why
	others  bool             // some of these are at another run than ours, and may be brought to one of ours
}

// story is what the journal says of a job.
type story struct {
	journal.Job
	conflict bool          // one was met of its claim
	notes    string        // what is told beside how it ended
	earlier  []journal.Job // as they were under earlier claims
}

// isStale tells whether a row shows an earlier claim.
func (s *story) isStale(row *Seen) bool {
	return slices.ContainsFunc(s.earlier, func(job journal.Job) bool { return Shows(job, row) })
}

// run compares all jobs of the last minutes, and those under way. It can be run again after an
// error.
func (c *comparison) run(ctx context.Context) error {
	clear(c.left)
	c.others = false
	stories, err := c.stories(ctx)
	if err != nil {
		return err
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(stories)), compareRows) {
		found, err := c.mirror.Table.Look(ctx, ids)
		if err != nil {
			return tableError{err}
		}
		if err := c.mend(ctx, stories, ids, found); err != nil {
			return err
		}
	}
	return nil
}

// stories reads what happened in the last minutes, and adds the jobs that are under way for longer.
func (c *comparison) stories(ctx context.Context) (map[int64]*story, error) {
	m := c.mirror
	stories := map[int64]*story{}
	state := journal.State{KeepEnded: true, Jobs: map[int64]*journal.Job{}}
	seq, err := m.Source.Back(ctx, m.Reached(), backAge, backEvents)
	for newest := m.newest(); err == nil && seq < newest; {
		var events []journal.Event
		if events, err = m.Source.Next(ctx, seq, batchSize); err != nil {
			break
		}
		for _, e := range events {
			addTo(stories, &state, e)
		}
		seq = events[len(events)-1].Seq
	}
	m.Source.View(func(s *journal.State) {
		for id, job := range s.Jobs {
			if old := stories[id]; old == nil || old.Token == job.Token {
				now := story{Job: *job}
				if old != nil {
					now.earlier = old.earlier
				}
				stories[id] = &now
			}
		}
	})
	return stories, err
}

// addTo takes an event into its job's story; state is the fold of the events so far. If the claim came
// before the first of these events, the event itself says all that is known of the claim. Events of older
// versions don't name their claim: they count only if the claim is among the events.
func addTo(stories map[int64]*story, state *journal.State, e journal.Event) {
	before, begun := state.Job(e.Job), claimIn(e)
	if before.Status == journal.StatusNone && begun.Token != "" {
		begun.ID, begun.Status = e.Job, journal.StatusStarting
		if p, isStart := e.Payload.(journal.Running); isStart {
			begun.Attempt = p.Attempt - 1
		}
		state.Jobs[e.Job] = &begun
	}
	state.Seq = e.Seq - 1
	if e.Job == 0 || state.Apply(e) != nil {
		return
	}
	s := stories[e.Job]
	if s == nil {
		s = &story{}
		stories[e.Job] = s
	}
	switch p := e.Payload.(type) {
	case journal.Accepted:
		if s.conflict, s.notes = false, ""; before.Token != "" {
			s.earlier = append(s.earlier, before)
		}
	case journal.Replanned:
		if before.Status == journal.StatusDone {
			s.notes = both(s.notes, p.Note)
		}
	case journal.Conflict:
		ofClaim := p.Wanted != journal.WantedRetried && p.Wanted != journal.RowIgnored
		s.conflict = s.conflict || ofClaim && (p.Token == "" || p.Token == before.Token)
	}
	s.Job = state.Job(e.Job)
}

// mend brings some rows that are behind up to date.
func (c *comparison) mend(ctx context.Context, stories map[int64]*story, ids []int64, found map[int64]*Seen) error {
	var list []Past
	for _, id := range ids {
		s, row := stories[id], found[id]
		if Agrees(s.Job, row) || s.Job.End > 0 && row == nil { // what is done may be deleted
			if c.begun[id] { // the table's answer was lost
				c.mended[id] = true
			}
			continue
		}
		ours := row != nil && row.UnderWay() && row.Owner == s.Token
		if (s.conflict || s.Lost) && !ours { // the journal knows that somebody else changed it
			continue
		}
		stale := row != nil && !ours && s.isStale(row)
		if why := Refusal(s.Job, row, stale); why != "" {
			c.left[id] = why
			c.others = c.others || why == wentOnElsewhere
			continue
		}
		c.begun[id] = true
		list = append(list, Past{Job: s.Job, Row: row, Stale: stale})
	}
	var gaveBack []string
	bringing := Bringing{
		Table: c.mirror.Table, Tries: claimTries, Left: c.left, Won: c.mended,
		Free: func(_ context.Context, p Past, row journal.Row) (bool, error) {
			return c.free(stories[p.Job.ID], row), nil
		},
		End: func(ctx context.Context, p Past) (*journal.Done, error) {
			done, err := c.done(ctx, p.Job.End)
			if err == nil {
				done.Note = both(done.Note, stories[p.Job.ID].notes)
			}
			return done, err
		},
		outcome: func(change Change, o Outcome) {
			switch o.Fate {
			case Applied:
				c.mended[change.Job] = true
				if change.target != "" && (change.Status == journal.RowWaiting || change.Status == journal.RowDelayed) {
					gaveBack = append(gaveBack, change.target)
				}
			case Lost:
			default: // it is quarantined like any change
				c.mirror.owe(change, o)
			}
		},
	}
	err := bringing.Rows(Comparing(ctx), list)
	c.mirror.tellGivenBack(gaveBack)
	if err != nil && ctx.Err() == nil && c.journal == nil {
		return tableError{err}
	}
	return cmp.Or(c.journal, err)
}

// claimTries is how often rows that somebody else holds are tried to be claimed again.
const claimTries = 20

// done is how a job ended, with its output, from the history, which is read by the page.
func (c *comparison) done(ctx context.Context, seq uint64) (done *journal.Done, err error) {
	if len(c.page) == 0 || seq < c.page[0].Seq || seq > c.page[len(c.page)-1].Seq {
		if c.page, err = c.mirror.Source.Next(ctx, seq-1, batchSize); err != nil {
			c.journal = err
			return nil, err
		}
	}
	p, _ := c.page[seq-c.page[0].Seq].Payload.(journal.Done)
	return &p, nil
}

// free tells whether a locked row is still the one that the story is about, and nobody's.
func (c *comparison) free(s *story, row journal.Row) bool {
	var now journal.Job
	c.mirror.Source.View(func(state *journal.State) { now = state.Job(s.ID) })
	if !now.Status.Ended() && now.Token != s.Token {
		return false
	}
	if s.Status == journal.StatusIgnored {
		return true
	}
	if row.Status == journal.RowDelayed && !AsFound(s.Job, row.Plan, row.Finished) && !s.isStale(&Seen{Row: row, Finished: row.Finished}) {
		return false
	}
	return s.Manual == (row.Status == journal.RowManual) && row.Target == s.Target
}

package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"jobd/journal"
)

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
	mirror *Mirror
	server string
	met    time.Time        // when it was noticed
	mended map[int64]bool   // rows that were brought up to date
	begun  map[int64]bool   // rows that were tried to
	page   []journal.Event  // of the history, as it was read last
	left   map[int64]string // rows that were not, and why
	others bool             // some of these are at another run than ours, and may be brought to one of ours
}

func newComparison(m *Mirror, server string) *comparison {
	return &comparison{mirror: m, server: server, met: time.Now(), mended: map[int64]bool{}, begun: map[int64]bool{}, left: map[int64]string{}}
}

// story is what the journal says of a job.
type story struct {
	journal.Job
	ended   uint64        // the event that it was done with
	earlier []string      // tokens of earlier claims
	notes   string        // what is told beside how it ended
	before  []journal.Job // earlier claims of the row while it was delayed
}

// ran tells whether a delayed row reads as an earlier claim has found it.
func (s *story) ran(row *Seen) bool {
	return row.Status == journal.RowDelayed && slices.ContainsFunc(s.before, func(job journal.Job) bool { return AsFound(job, row.Plan, row.Finished) })
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
	c.logLeft()
	return nil
}

// mostLogged bounds how many rows are named in the log.
const mostLogged = 100

// logLeft logs which rows were left as found.
func (c *comparison) logLeft() {
	ids := slices.Sorted(maps.Keys(c.left))
	for _, id := range ids[:min(len(ids), mostLogged)] {
		c.mirror.Logger.Warn("a row differs from the journal, and is left as found", "job", id, "reason", c.left[id])
	}
}

// stories reads what happened in the last minutes, and adds the jobs that are under way for longer.
func (c *comparison) stories(ctx context.Context) (map[int64]*story, error) {
	m := c.mirror
	stories := map[int64]*story{}
	seq, err := m.Source.Back(ctx, m.triedUpTo(), backAge, backEvents)
	for newest := m.newest(); err == nil && seq < newest; {
		var events []journal.Event
		if events, err = m.Source.Next(ctx, seq, batchSize); err != nil {
			break
		}
		for _, e := range events {
			addTo(stories, e)
		}
		seq = events[len(events)-1].Seq
	}
	m.Source.View(func(s *journal.State) {
		for id, job := range s.Jobs {
			if old := stories[id]; old == nil || old.Token == job.Token {
				now := story{Job: *job}
				if old != nil {
					now.earlier, now.before = old.earlier, old.before
				}
				stories[id] = &now
			}
		}
	})
	return stories, err
}

// retried makes of a story that of a job whose row was set back.
func (s *story) retried(p journal.Retried, e journal.Event) {
	before := s.Job
	s.Job.Before, s.Job.Retried = &before, &p
	s.Status, s.Ended, s.Target, s.Manual = journal.StatusRetried, e.Time, p.Target, p.To == journal.RowManual
}

// notRetried takes that back.
func (s *story) notRetried() {
	if s.Status == journal.StatusRetried {
		s.Job = *s.Job.Before
	}
}

// addTo takes an event into its job's story. Events of older versions, which don't name their
// claim, count where the claim itself is in the story.
func addTo(stories map[int64]*story, e journal.Event) {
	s := stories[e.Job]
	of := claimIn(e)
	switch {
	case e.Job == 0:
		return
	case s == nil:
		s = &story{Job: journal.Job{ID: e.Job, Token: of.token, Target: of.target, Manual: of.manual, From: of.from, Plan: of.plan}}
	case of.token != "" && of.token != s.Token:
		return
	}
	switch p := e.Payload.(type) {
	case journal.Accepted:
		if s.Token != "" {
			s.earlier = append(s.earlier, s.Token)
		}
		if s.From == journal.RowDelayed {
			s.before = append(s.before, s.Job)
		}
		s.ended, s.notes = 0, ""
		s.Job = journal.Job{
			ID: e.Job, Target: p.Target, Manual: p.Manual, Token: p.Token,
			Status: journal.StatusAccepted, Accepted: e.Time,
			From: p.From, Plan: p.Plan, PlannedAt: p.PlannedAt,
		}
	case journal.Ignored:
		s.Job = journal.Job{ID: e.Job, Status: journal.StatusIgnored, Ended: e.Time, Reason: p.Reason}
		if p.By != "" {
			s.Cancelled = &journal.Cancellation{Time: e.Time, By: p.By}
		}
	case journal.Cancelled:
		s.Cancelled = &journal.Cancellation{Time: e.Time, By: p.By}
		if !p.Runs {
			s.Status, s.Ended, s.Reason = journal.StatusIgnored, e.Time, p.Reason()
		}
	case journal.Running:
		s.Status, s.Running, s.Attempt = journal.StatusStarting, e.Time, p.Attempt
	case journal.Released:
		s.Status, s.Ended = journal.StatusReleased, e.Time
	case journal.Done:
		s.Status, s.Ended, s.Result, s.ended, s.Again = journal.StatusDone, p.EndedAt(e.Time), p.Result, e.Seq, p.Again
	case journal.Replanned:
		if s.Status == journal.StatusDone {
			s.Again, s.notes = p.Again, both(s.notes, p.Note)
		}
	case journal.Planned:
		s.Job = journal.Job{ID: e.Job, Target: p.Target, Status: journal.StatusPlanned, Ended: e.Time, Reason: p.Reason, Again: &p.To}
	case journal.Retried:
		s.retried(p, e)
	case journal.Conflict:
		if p.Wanted == journal.WantedRetried {
			s.notRetried()
		} else if p.Wanted == journal.RowIgnored {
			if s.Status == journal.StatusIgnored && s.Token == "" {
				s.Status = journal.StatusConflict
			}
		} else if p.Token == "" || p.Token == s.Token {
			s.Lost = true
		}
	}
	if s.Status != journal.StatusNone && (s.Token != "" || s.Status == journal.StatusIgnored || s.Status == journal.StatusRetried) {
		stories[e.Job] = s
	}
}

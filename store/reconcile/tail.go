package reconcile

import (
	"context"

	"jobd/journal"
)

// tail is what was appended to the journal since a comparison began. Of the jobs that are not in it
// the journal is known as it was read then, and the mirror has tried to show it, so that many can
// be judged, and brought back, together. The few that are in it are looked at one by one.
type tail struct {
	journal Journal
	from    uint64         // the newest event when the comparison began
	read    uint64         // up to which jobs is complete
	jobs    map[int64]bool // that have got events since
}

func newTail(j Journal, newest uint64) *tail {
	return &tail{journal: j, from: newest, read: newest, jobs: make(map[int64]bool)}
}

// readOn reads what was appended meanwhile.
func (t *tail) readOn(ctx context.Context) error {
	if t == nil {
		return nil
	}
	for e, err := range t.journal.Events(ctx, journal.Filter{After: t.read}) {
		if err != nil {
			return err
		}
		t.jobs[e.Job], t.read = true, e.Seq
	}
	return nil
}

// has tells whether a job has got events since the comparison began, as far as the tail was read.
func (t *tail) has(job int64) bool { return t != nil && t.jobs[job] }

// lookAgain judges jobs that seemed to differ: a job may only have moved on between the two looks,
// or since. Those that don't move are judged in one go.
func (c *comparison) lookAgain(ctx context.Context, seemed []journal.Job) (differing []Difference, err error) {
	type standing struct {
		tried uint64
		owed  bool
	}
	standings := make([]standing, len(seemed))
	for i, job := range seemed {
		if c.Mirror != nil {
			standings[i].tried, standings[i].owed = c.Mirror.Standing(job.ID)
		}
	}
	found, err := c.look(ctx, idsOf(seemed))
	if err == nil {
		err = c.tail.readOn(ctx)
	}
	if err != nil {
		return nil, err
	}
	for i, job := range seemed {
		if job.Status == journal.StatusIgnored { // it may have been taken back
			if job, _, err = replay(ctx, c.Journal, job.ID); err != nil {
				return nil, err
			}
		}
		var d Difference
		var differs bool
		if at := standings[i]; c.tail != nil && (c.tail.has(job.ID) || at.tried < c.tail.from) {
			d, differs, err = c.lookAtMoving(ctx, job)
		} else {
			d, differs = judge(job, found[job.ID], at.owed)
		}
		if err != nil {
			return nil, err
		}
		if differs {
			differing = append(differing, d)
		}
	}
	return differing, nil
}

// lookAtMoving judges a job that may be moving on right now. The mirror's position is taken first,
// then the row, then the journal, which is ahead of both: so a row that should show an event up to
// the position, and does not, was changed by somebody else, unless it is set aside.
func (c *comparison) lookAtMoving(ctx context.Context, seemed journal.Job) (d Difference, differs bool, err error) {
	tried, owed := c.Mirror.Standing(seemed.ID)
	found, err := c.look(ctx, []int64{seemed.ID})
	if err != nil {
		return d, false, err
	}
	job, seq, err := replay(ctx, c.Journal, seemed.ID)
	if err != nil {
		return d, false, err
	}
	if job.Status == journal.StatusNone { // retention has removed how it began
		job = seemed
	}
	d, differs = judge(job, found[seemed.ID], seq > tried || owed)
	return d, differs, nil
}

package reconcile

import (
	"context"

	"jobd/journal"
	"jobd/store"
)

// finish brings rows that bear their claims to what the mirror would make of them.
func (b *batch) finish(ctx context.Context, list []Difference) error {
	var jobs []journal.Job
	for _, d := range list {
		switch d.Job.Status {
		case journal.StatusStarting, journal.StatusRunning, journal.StatusDone:
			jobs = append(jobs, d.Job)
		case journal.StatusIgnored:
			if d.Job.Token != "" && d.Row.UnderWay() && !b.stale[d.Job.ID] {
				jobs = append(jobs, d.Job)
			}
		}
	}
	var changes []store.Change
	size := 0
	err := b.changes(ctx, jobs, func(change store.Change) error {
		if changes = append(changes, change); change.Done != nil {
			size += len(change.Done.Stdout.Kept) + len(change.Done.Stderr.Kept)
		}
		if size < finishBytes {
			return nil
		}
		all := changes
		changes, size = nil, 0
		return b.apply(ctx, all)
	})
	if err != nil {
		return err
	}
	return b.apply(ctx, changes)
}

// finishBytes is how many bytes of output go into one transaction, or one more change.
const finishBytes = 4 << 20

// nearby is how many events per end the ends of a batch may lie apart to be read in one go.
const nearby = 200

// changes gives what the mirror would make of the jobs' rows. Ends are read in one go where they
// lie close together.
func (b *batch) changes(ctx context.Context, jobs []journal.Job, use func(store.Change) error) error {
	read, err := b.endsTogether(ctx, jobs, use)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		if read[job.End] {
			continue
		}
		change := store.ChangeTo(job)
		if job.Status == journal.StatusDone {
			end, err := endOf(ctx, b.Journal, job.ID)
			if err != nil {
				return err
			}
			if end == nil {
				b.refused[job.ID] = "how it ended is not in the journal any more"
				continue
			}
			change.EndAs(job, *end)
		}
		if err := use(change); err != nil {
			return err
		}
	}
	return nil
}

// endsTogether gives the changes of jobs that are done, in the order of their ends, in one go
// through the journal; it tells which ends it read through for, none where they lie too far apart.
func (b *batch) endsTogether(ctx context.Context, jobs []journal.Job, use func(store.Change) error) (read map[uint64]bool, err error) {
	done := make(map[uint64]journal.Job)
	read = make(map[uint64]bool)
	first, last := uint64(0), uint64(0)
	for _, job := range jobs {
		if job.Status == journal.StatusDone && job.End > 0 {
			done[job.End], read[job.End] = job, true
			if first == 0 || job.End < first {
				first = job.End
			}
			last = max(last, job.End)
		}
	}
	if len(done) == 0 || last-first > nearby*uint64(len(done)) {
		return nil, nil
	}
	for e, err := range b.Journal.Events(ctx, journal.Filter{After: first - 1, Kinds: []journal.Kind{journal.KindDone}, Output: true}) {
		if err != nil {
			return nil, err
		}
		if e.Seq > last {
			break
		}
		if job, wanted := done[e.Seq]; wanted {
			end := e.Payload.(journal.Done)
			change := store.ChangeTo(job)
			change.EndAs(job, end)
			if err := use(change); err != nil {
				return nil, err
			}
		}
	}
	return read, nil
}

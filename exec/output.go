package exec

import (
	"context"

	"jobd/exec/board"
	"jobd/journal"
)

// JobOutput is what a job that is under way has written.
type JobOutput struct {
	Attempt int
	Started bool // its start was asked for; else it has written nothing
	Adopted bool // its runner is gone
	Written Written
}

// Output gives a part of what a job has written, of its newest attempt where none is named. It
// finds nothing where the job is not under way here: then the journal has its output, if anybody.
func (w *Worker) Output(ctx context.Context, g Glance) (out JobOutput, found bool, err error) {
	j, process := w.underWay(g.Job)
	if j == nil {
		return out, false, nil
	}
	now := g
	now.Token = j.Token()
	if now.Attempt == 0 {
		now.Attempt = j.Attempt()
	}
	out = JobOutput{Attempt: now.Attempt, Started: process != nil || now.Attempt < j.Attempt()}
	switch {
	case now.Attempt > j.Attempt():
		return out, false, nil
	case now.Attempt < j.Attempt():
		out.Written, err = w.Watcher.Written(ctx, now) // of an attempt whose runner is gone
		return out, true, err
	case process == nil:
		return out, true, nil
	}
	out.Adopted = adopted(process)
	if !isClosed(process.Ended()) {
		if isClosed(process.Begun()) {
			now.Started = process.Started()
		}
		if out.Written, err = w.Watcher.Written(ctx, now); err == nil {
			return out, true, nil
		}
		if !isClosed(process.Ended()) {
			return out, true, err
		}
	}
	done, _ := process.Outcome()
	out.Written = Written{PartOf(done.Stdout, now.From[0], now.Most), PartOf(done.Stderr, now.From[1], now.Most)}
	return out, true, nil
}

// underWay finds a job and its process, which it may not have.
func (w *Worker) underWay(id int64) (j *board.Job, process Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j = w.board.Job(id); j != nil {
		process, _ = j.Process().(Process)
	}
	return j, process
}

// PartOf is a part of what was kept of a stream.
func PartOf(output journal.Output, from int64, most int) Part {
	kept := int64(len(output.Kept))
	if from < 0 {
		from = max(from+kept, 0)
	}
	if from >= kept {
		return Part{At: output.Size, Size: output.Size}
	}
	return Part{At: from, Bytes: output.Kept[from:min(from+int64(most), kept)], Size: output.Size}
}

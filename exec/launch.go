package exec

import "time"

// announcement is a start that is journalled, under the number of its event.
type announcement struct {
	job *job
	seq uint64
}

// launch starts jobs that were announced, as soon as their rows say so. A row that can't be updated for now
// holds up its own job only.
func (w *Worker) launch(group []announcement) {
	defer w.begun()
	if !w.wait(w.Mirror.Tried(group[len(group)-1].seq), nil, nil) {
		return
	}
	ready := group[:0]
	for _, a := range group {
		if w.offline() || isClosed(w.Mirror.Shown(a.seq, a.job.id)) {
			ready = append(ready, a)
			continue
		}
		w.mu.Lock()
		w.beginning.add()
		w.mu.Unlock()
		go w.launchLate(a)
	}
	w.startAll(ready)
}

// stands tells whether the job still waits for its start as it was announced. The lock is held.
func (a announcement) stands() bool {
	return a.job.phase == announced && a.job.announced == a.seq
}

// begun notes that what was to be started was asked for, or will not be.
func (w *Worker) begun() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beginning.done()
}

// wait waits until the mirror has closed a channel. It is false when the worker stops, recall is closed, or limit
// receives, before. While the database is away it may be true at once, if so configured.
func (w *Worker) wait(mirrored, recall <-chan struct{}, limit <-chan time.Time) bool {
	var away <-chan struct{}
	if w.LaunchOffline {
		away = w.Mirror.Away()
	}
	select {
	case <-mirrored:
		return true
	case <-away:
		return true
	case <-recall:
	case <-limit:
	case <-w.stop:
	}
	return false
}

// offline tells whether jobs are started on the journal alone at this moment.
func (w *Worker) offline() bool { return w.LaunchOffline && isClosed(w.Mirror.Away()) }

// startAll starts the jobs that the journal still sees as about to be started, and drops the others.
func (w *Worker) startAll(group []announcement) {
	ours := make([]bool, len(group))
	w.Recorder.View(viewStarts(group, ours))
	for i, a := range group {
		if ours[i] {
			w.start(a)
		} else {
			w.taken(a)
		}
	}
}

// taken drops a job whose row is somebody else's by now, as the journal knows.
func (w *Worker) taken(a announcement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !a.stands() {
		return
	}
	w.logTaken(a.job)
	w.drop(a.job, changedByOthers)
}

func (w *Worker) logTaken(j *job) {
	w.Logger.Warn("job is not started: its row was changed by somebody else", "job", j.id, "target", j.target.name)
}

// startClaimed starts jobs whose claims said that they are running.
func (w *Worker) startClaimed(jobs []*job) {
	defer w.begun()
	group := make([]announcement, len(jobs))
	w.mu.Lock()
	for i, j := range jobs {
		j.move(announced)
		group[i] = announcement{j, j.announced}
	}
	w.mu.Unlock()
	for _, a := range group {
		w.start(a)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

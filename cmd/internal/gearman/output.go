package gearman

import (
	"context"
	"maps"
	"sync"
	"time"

	jobexec "jobd/exec"
)

// A launcher's process tells nobody what it writes: its runner keeps it, and is asked while clients wait.
const (
	outputEvery = 250 * time.Millisecond
	mostOutput  = 256 << 10 // bytes of a job at a time: its end brings the whole, however far this is behind
)

// outputs passes on what jobs write that launchers run.
type outputs struct {
	front *Front

	mu   sync.Mutex
	jobs map[int64]*output
	next *time.Timer // nil: there are none
}

// output is how far what a job writes is passed on.
type output struct {
	attempt int
	from    int64                       // what comes next of its stdout
	tell    func(part []byte) (on bool) // is called at each look; false: nobody wants more
}

// follow has what a job writes passed on, from its beginning.
func (o *outputs) follow(id int64, tell func(part []byte) (on bool)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.jobs[id] == nil {
		o.jobs[id] = &output{tell: tell}
	}
	if o.next == nil {
		o.next = time.AfterFunc(outputEvery, o.look)
	}
}

// look asks once for what each of the jobs has written since.
func (o *outputs) look() {
	o.mu.Lock()
	jobs := maps.Clone(o.jobs)
	o.mu.Unlock()
	maps.DeleteFunc(jobs, func(id int64, job *output) (on bool) { return job.tell(o.read(id, job)) })
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range jobs {
		delete(o.jobs, id)
	}
	if o.next = nil; len(o.jobs) > 0 {
		o.next = time.AfterFunc(outputEvery, o.look)
	}
}

// read gives what a job has written since.
func (o *outputs) read(id int64, job *output) []byte {
	now, found, err := o.front.Worker.Output(context.Background(), jobexec.Glance{Job: id, From: [2]int64{job.from, -1}, Most: mostOutput})
	if err != nil || !found || !now.Started {
		return nil
	}
	if now.Attempt != job.attempt { // it began anew
		again := job.attempt != 0
		if job.attempt = now.Attempt; again {
			job.from = 0
			return nil
		}
	}
	part := now.Written[0]
	job.from = part.At + int64(len(part.Bytes))
	return part.Bytes
}

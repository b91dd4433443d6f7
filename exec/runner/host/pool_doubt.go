package host

// A launcher whose processes get ready, and end as soon as they have a job, would take job after job
// with it: each of them was asked for, and nobody knows whether it was started. So it is doubted once
// two processes in a row have ended so, until one has started a job. Meanwhile it has one process at
// a time, after a while each, which is tried with one job; the others wait, or are refused.

// isDoubted tells whether the launcher has to show first that its processes start jobs.
func (p *pool) isDoubted() bool { return p.useless > 1 }

// isForATry tells whether a process is there that is tried, or can be. One that has a job has shown that
// it starts them, but may have it for long.
func (k *kept) isForATry() bool {
	return (k.state == idle || k.state == asked) && k.due == "" && k.why == ""
}

// isTried tells whether a launcher that is doubted has a job that it has not started yet.
func (p *pool) isTried() bool {
	return p.isDoubted() && p.count(func(k *kept) bool { return k.state == asked }) > 0
}

// endUntried ends processes that are like those that were of no use.
func (p *pool) endUntried() {
	for _, k := range p.processes {
		if k.state == idle && k.jobs == 0 {
			k.quit()
		}
	}
}

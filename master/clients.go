package master

import (
	"sync"

	jobnet "jobd/net"
)

// clients counts what each client has under way, so that none of them takes everything. The zero
// value is ready; it is safe for concurrent use.
type clients struct {
	mu   sync.Mutex
	of   map[*jobnet.Link]*client // those with a request under way
	jobs int                      // that all of them wait for
}

// client is one client's part.
type client struct {
	requests int           // under way
	jobs     int           // by hand, that it waits for
	slots    chan struct{} // one for each worker that is asked for it
}

// enter begins a request of the client at the other end of link; leave ends it.
func (c *clients) enter(link *jobnet.Link) (from *client, leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[*jobnet.Link]*client)
	}
	if c.of[link] == nil {
		c.of[link] = &client{slots: make(chan struct{}, fanOut)}
	}
	from = c.of[link]
	from.requests++
	return from, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if from.requests--; from.requests == 0 {
			delete(c.of, link)
		}
	}
}

// take counts jobs that a client is going to wait for, where it may; give ends that.
func (c *clients) take(from *client, jobs int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case from.jobs+jobs > mostJobs:
		return jobnet.Refusef("too many jobs: a connection may wait for at most %d at once, and waits for %d", mostJobs, from.jobs).
			With(jobnet.CodeLimit)
	case jobs > freeJobs && c.jobs+jobs > mostJobsOfAll:
		return jobnet.Refusef("too many jobs: all clients together may wait for at most %d at once, and wait for %d", mostJobsOfAll, c.jobs).
			With(jobnet.CodeLimit)
	}
	from.jobs += jobs
	c.jobs += jobs
	return nil
}

func (c *clients) give(from *client, jobs int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from.jobs -= jobs
	c.jobs -= jobs
}

package master

import (
	"slices"
	"sync"
)

// poll is what a worker is polled for.
type poll struct {
	targets []string // as the worker names them
	likes   []string // other names of theirs to the worker's table, which were poked
}

// names gives the poked names that an answer of the worker is about.
func (p poll) names() []string {
	if len(p.likes) == 0 {
		return p.targets
	}
	return slices.Concat(p.targets, p.likes)
}

// each gives the parts of the poll that are about one of its targets each.
func (p poll) each(yield func(poll) bool) {
	likes := selectionOf(p.likes)
	for _, target := range p.targets {
		if !yield(poll{targets: []string{target}, likes: likes.folded[fold(target)]}) {
			return
		}
	}
}

// pollQueue gathers what one worker is to poll. It is safe for concurrent use.
type pollQueue struct {
	mu      sync.Mutex
	targets names
	likes   names
	active  bool // somebody calls next
}

// begin queues a poll and tells whether the caller must call next until there is nothing more.
func (q *pollQueue) begin(p poll) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.targets.add(p.targets)
	q.likes.add(p.likes)
	if q.active || len(q.targets.list) == 0 {
		return false
	}
	q.active = true
	return true
}

func (q *pollQueue) next() (p poll, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p = poll{targets: q.targets.takeAll(), likes: q.likes.takeAll()}
	q.active = p.targets != nil
	return p, q.active
}

// poll gives what the worker is polled for when these targets were poked. A poke is a hint: it also
// goes to a worker whose target has a like name, since the table may take both for one; but only
// where the worker says that it does, is its answer enough.
func (p *profile) poll(poked *selection) poll {
	var served []int32
	var likes []string
	p.shared(poked, func(own []int32, names []string) {
		unserved := p.unserved(names)
		served = append(served, p.meant(own, poked, len(unserved) > 0)...)
		if p.folds {
			likes = append(likes, unserved...)
		}
	})
	slices.Sort(likes)
	return poll{targets: p.named(served), likes: likes}
}

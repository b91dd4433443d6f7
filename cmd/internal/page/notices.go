package page

import (
	"crypto/rand"
	"sync"
	"time"
)

// notices keep what was said of an act until the page is shown to which it led back.
type notices struct {
	mu   sync.Mutex
	said []notice // the oldest first
}

type notice struct {
	id    string
	lines []string
	at    time.Time
}

// Of so many notices, for so long.
const (
	mostNotices = 1000
	noticeLives = 10 * time.Minute
)

// keep keeps a notice, and gives what it is called in the address.
func (n *notices) keep(now time.Time, lines []string) (id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.said) > 0 && (len(n.said) >= mostNotices || now.Sub(n.said[0].at) > noticeLives) {
		n.said = n.said[1:]
	}
	id = rand.Text()
	n.said = append(n.said, notice{id, lines, now})
	return id
}

// take gives a notice. It stays, for who loads the page anew.
func (n *notices) take(id string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.said {
		if one.id == id {
			return one.lines
		}
	}
	return nil
}

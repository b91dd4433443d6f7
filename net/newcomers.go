package net

import (
	"container/list"
	"net/netip"
	"time"
)

// newcomers are links that have not shown yet that somebody needs them, in the order in which they
// came. The zero value has room for none.
type newcomers struct {
	most int
	all  list.List // of *newcomer
	from map[netip.Prefix]*list.List
}

// newcomer is one of them. It is in one list of newcomers at most.
type newcomer struct {
	link     *Link
	from     netip.Prefix
	came     time.Time
	in       *newcomers // nil: it has left
	all, own *list.Element
}

func (n *newcomers) add(one *newcomer) {
	if n.from == nil {
		n.from = make(map[netip.Prefix]*list.List)
	}
	if n.from[one.from] == nil {
		n.from[one.from] = list.New()
	}
	one.came = time.Now()
	one.in, one.all, one.own = n, n.all.PushBack(one), n.from[one.from].PushBack(one)
}

// remove does nothing where one is not, or no longer, among them.
func (n *newcomers) remove(one *newcomer) {
	if one.in != n {
		return
	}
	one.in = nil
	n.all.Remove(one.all)
	n.from[one.from].Remove(one.own)
	if n.from[one.from].Len() == 0 {
		delete(n.from, one.from)
	}
}

// excess is who is to go before one more may come: the oldest of the address that has most of them.
// It is nil where nobody needs to.
func (n *newcomers) excess() *newcomer {
	if n.all.Len() < n.most || n.all.Len() == 0 {
		return nil
	}
	most := n.from[n.oldest().from]
	for _, own := range n.from {
		if own.Len() > most.Len() {
			most = own
		}
	}
	return most.Front().Value.(*newcomer)
}

// oldest is nil where there is none.
func (n *newcomers) oldest() *newcomer {
	if n.all.Len() == 0 {
		return nil
	}
	return n.all.Front().Value.(*newcomer)
}

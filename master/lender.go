package master

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
)

var errNotRegistered = jobnet.Refusal("only a registered worker is lent a share of a rate").With(jobnet.CodeInvalid)

// lend answers lend, which only workers ask.
func (m *Master) lend(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	w := m.registry.over(link)
	if w == nil {
		return nil, errNotRegistered
	}
	as := w.profile.Load()
	who := as.instance
	if who == "" {
		who = link.RemoteAddr().String()
	}
	asked, err := api.Lend.Read(request.From, request.Fields())
	if err != nil {
		return nil, err
	}
	// Only of targets that it serves: else any peer could take the rates of others.
	asked.Rates = slices.DeleteFunc(asked.Rates, func(r api.SharedRate) bool { return !as.serves(r.Target) })
	return m.lender.lend(who, asked, time.Now()), nil
}

// lender lends workers their shares of the rates that they keep together. A worker asks for its
// share about once a second, and keeps what it has until it is told otherwise, also while it has no
// master. So a share is only made greater by what is free: what the others have been told that they
// may have, and have not been told to give up, is theirs.
//
//	wanted by nobody          everybody has the same share
//	wanted by some            these have it, in equal parts, but for a little that the others keep
//	                          for the job that may come to them next
//
// A worker that does not ask any more keeps its share for shareKept: it may be cut off from its
// master, and go on. A master that has just started learns of each worker what that has; it lends
// nothing more before all that are there have had the time to come back, for which they take 10 s at
// most as they are configured usually, and to ask.
type lender struct {
	mu    sync.Mutex
	begun time.Time // when the master started
	swept time.Time // when those were last forgotten that do not ask any more
	pools map[string]*pool
}

// pool is one rate, and who has how much of it.
type pool struct {
	rate    float64 // starts a second
	members map[string]*member
}

// member is a worker that has a share.
type member struct {
	holds float64 // what it may have: the answer that takes from it may not have reached it
	wants bool
	seen  time.Time
}

const (
	shareKept  = time.Minute      // for how long a worker that does not ask any more keeps its share
	idlePart   = 0.1              // of what would be its equal share, which a worker keeps that wants nothing
	settleTime = 20 * time.Second // in which all workers have come back to a master that has just started, and asked
	mostPools  = 100_000          // rates, of all workers
)

func newLender(now time.Time) *lender { return &lender{begun: now, pools: make(map[string]*pool)} }

// lend answers a worker.
func (l *lender) lend(who string, asked api.Borrowing, now time.Time) api.Shares {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	shares := make(map[string]float64, len(asked.Rates))
	for _, r := range asked.Rates {
		if p := l.pool(r); p != nil {
			if share, lent := p.lend(who, r, l.settled(now), now); lent {
				shares[r.Target] = share
			}
		}
	}
	return api.Shares{Shares: shares}
}

// sweep forgets the workers that do not ask any more, and the rates that nobody has.
func (l *lender) sweep(now time.Time) {
	if now.Sub(l.swept) < shareKept {
		return
	}
	l.swept = now
	for target, p := range l.pools {
		if p.forget(now); len(p.members) == 0 {
			delete(l.pools, target)
		}
	}
}

// settled tells whether all workers have had the time to ask.
func (l *lender) settled(now time.Time) bool { return now.Sub(l.begun) >= settleTime }

// pool is that of a target. Where workers' configurations differ, the one that asked last counts.
// Rates beyond what is remembered are not lent: their workers go on with what they have.
func (l *lender) pool(r api.SharedRate) *pool {
	p := l.pools[r.Target]
	if p == nil {
		if len(l.pools) >= mostPools {
			return nil
		}
		p = &pool{members: make(map[string]*member)}
		l.pools[r.Target] = p
	}
	p.rate = float64(r.Starts) / (time.Duration(r.Per) * time.Millisecond).Seconds()
	return p
}

// lend gives a worker its share, unless none is lent to it yet.
func (p *pool) lend(who string, r api.SharedRate, settled bool, now time.Time) (share float64, lent bool) {
	p.forget(now)
	m := p.members[who]
	if m == nil {
		m = &member{}
		p.members[who] = m
	}
	m.wants, m.seen = r.Wants, now
	free, has := p.rate, 0.0
	for _, other := range p.members {
		if other != m {
			free -= other.holds
		}
	}
	if r.Has != nil {
		has = min(*r.Has, p.rate)
	}
	share = max(0, min(p.fair(m.wants), free))
	if !settled {
		share = min(share, has)
	}
	m.holds = max(share, has)
	return share, settled || r.Has != nil
}

// forget takes out who has not asked for long.
func (p *pool) forget(now time.Time) {
	maps.DeleteFunc(p.members, func(_ string, m *member) bool { return now.Sub(m.seen) > shareKept })
}

// fair is the share of a worker that wants, or does not want, where all have what is theirs.
func (p *pool) fair(wants bool) float64 {
	want := 0
	for _, m := range p.members {
		if m.wants {
			want++
		}
	}
	equal := p.rate / float64(len(p.members))
	idle := idlePart * equal
	switch {
	case want == 0:
		return equal
	case !wants:
		return idle
	}
	return (p.rate - idle*float64(len(p.members)-want)) / float64(want)
}

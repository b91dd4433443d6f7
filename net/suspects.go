package net

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// How wrong passwords of one address are slowed down, over however many connections they come. The
// answer to the first leaves at once, the second's after firstDelay, each later one's twice as late
// up to longestDelay, until the address gave no wrong one for forgetAfter. A worker that registers
// waits longer than that, and so is told what is wrong.
//
// The right password is answered at once. So who gets no answer knows that it was wrong, and need
// not wait for the delay: what bounds guessing is how often one is looked at, guessesAtOnce and
// then one each guessEvery. Only wrong ones count. Where more come, the last to come is looked at
// first: of many who wait, an honest one is the likeliest to have just come.
const (
	firstDelay    = 100 * time.Millisecond
	longestDelay  = 3 * time.Second
	forgetAfter   = time.Minute
	guessEvery    = 100 * time.Millisecond
	guessesAtOnce = 8
	maxRemembered = 4096 // addresses
)

// suspects are the addresses that gave wrong passwords lately. The zero value is ready; it is safe
// for concurrent use.
type suspects struct {
	mu    sync.Mutex
	known map[netip.Prefix]*suspect
}

// suspect is one address.
type suspect struct {
	failures int
	last     time.Time       // of them
	paid     time.Time       // when those so far would have come, at one each guessEvery
	waiting  []chan struct{} // closed when the turn has come, that of the last first
	timer    *time.Timer     // gives the next turn
}

// judge returns when it is the address's turn, and counts the password if it is wrong: its answer
// is to be held back for the delay. ctx ends the wait.
func (s *suspects) judge(ctx context.Context, from netip.Prefix, right bool) (delay time.Duration, err error) {
	for again := false; ; again = true {
		delay, turn := s.tryJudge(from, right, again)
		if turn == nil {
			return delay, nil
		}
		select {
		case <-turn:
		case <-ctx.Done():
			s.leave(from, turn)
			return 0, context.Cause(ctx)
		}
	}
}

// tryJudge is judge, or gives a channel that is closed when to try again. Who tries again, because
// somebody else was faster, is none that has just come, and waits behind all others.
func (s *suspects) tryJudge(from netip.Prefix, right, again bool) (delay time.Duration, turn chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	one := s.known[from]
	if one.wait(now) > 0 {
		turn = make(chan struct{})
		if one.waiting = append(one.waiting, turn); again {
			copy(one.waiting[1:], one.waiting)
			one.waiting[0] = turn
		}
		s.arm(one, now)
		return 0, turn
	}
	if !right {
		one, delay = s.failed(from, now)
	}
	s.arm(one, now)
	return delay, nil
}

// wait is how long it is until a password of this address is looked at. nil is an address that gave
// no wrong one.
func (one *suspect) wait(now time.Time) time.Duration {
	if one == nil {
		return 0
	}
	return max(0, one.paid.Sub(now)-(guessesAtOnce-1)*guessEvery)
}

// failed counts a wrong password, and says how long its answer is to be held back. The caller holds
// mu.
func (s *suspects) failed(from netip.Prefix, now time.Time) (one *suspect, delay time.Duration) {
	if s.known == nil {
		s.known = make(map[netip.Prefix]*suspect)
	}
	if one = s.known[from]; one == nil {
		if len(s.known) >= maxRemembered {
			s.makeRoom()
		}
		one = &suspect{}
		s.known[from] = one
	}
	if now.Sub(one.last) > forgetAfter {
		one.failures = 0
	}
	if one.paid.Before(now) {
		one.paid = now
	}
	one.paid = one.paid.Add(guessEvery)
	if one.failures > 0 {
		delay = min(firstDelay<<min(one.failures-1, 10), longestDelay)
	}
	one.failures, one.last = one.failures+1, now
	return one, delay
}

// arm has the next of those who wait tried when it is time. Callers must hold mu.
func (s *suspects) arm(one *suspect, now time.Time) {
	if one == nil || len(one.waiting) == 0 || one.timer != nil {
		return
	}
	one.timer = time.AfterFunc(one.wait(now), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		one.timer = nil
		if last := len(one.waiting) - 1; last >= 0 {
			close(one.waiting[last])
			one.waiting = one.waiting[:last]
		}
	})
}

// leave is called by who waits no longer.
func (s *suspects) leave(from netip.Prefix, turn chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.known[from]
	if one == nil {
		return
	}
	if at := slices.Index(one.waiting, turn); at >= 0 {
		one.waiting = slices.Delete(one.waiting, at, at+1)
		return
	}
	s.arm(one, time.Now()) // the turn had come, and is the next one's
}

// makeRoom forgets the address that was quiet for longest of some. Callers must hold mu.
func (s *suspects) makeRoom() {
	const some = 32
	var oldest netip.Prefix
	var found *suspect
	looked := 0
	for prefix, one := range s.known { // begins anywhere
		if len(one.waiting) == 0 && one.timer == nil && (found == nil || one.last.Before(found.last)) {
			oldest, found = prefix, one
		}
		if looked++; looked >= some && found != nil {
			break
		}
	}
	if found != nil {
		delete(s.known, oldest)
	}
}

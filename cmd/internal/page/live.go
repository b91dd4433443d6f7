package page

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"jobd/cmd/internal/web"
	"jobd/journal"
)

// streams are the views that somebody looks at: each is made once for all who look at the same with the
// same rights, and sent where it has changed. Nobody looks: nothing is made.
type streams struct {
	mu   sync.Mutex
	live map[string]*stream

	// The jobs of the newest events of the journal, each at the place of its number, from the one behind since on.
	recent        [4096]int64
	since, newest uint64
}

// stream is one view, and who looks at it.
type stream struct {
	watchers map[chan template.HTML]struct{}
	newest   template.HTML
	took     time.Duration // to make it
	job      int64         // that it is about; 0: none
	wake     chan struct{} // has one when a view that rests is to be made anew
	stop     context.CancelFunc
}

// lifeSign is how often one who looks hears something, so that a link that has ended is noticed.
const lifeSign = 20 * time.Second

// stream sends a view as it changes, until whoever looks at it is gone.
func (p *Page) stream(w http.ResponseWriter, l *look, s *aScreen) {
	w.Header().Set("Content-Type", "text/event-stream")
	out, err := web.OpenStream(w, l.Request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	}
	defer out.Close()
	changed := p.watch(l, s)
	defer p.unwatch(l, changed)
	alive := time.NewTicker(lifeSign)
	defer alive.Stop()
	for text := ": here\n\n"; ; {
		if _, err := io.WriteString(out, text); err != nil {
			return
		}
		select {
		case main := <-changed:
			text = asEvent(main)
		case <-alive.C:
			text = ": still here\n\n"
		case <-out.Done():
			return
		}
	}
}

// asEvent is a text as one server-sent event.
func asEvent(main template.HTML) string {
	var event bytes.Buffer
	for line := range bytes.Lines([]byte(main)) {
		fmt.Fprintf(&event, "data: %s\n", bytes.TrimRight(line, "\r\n"))
	}
	event.WriteByte('\n')
	return event.String()
}

// key is the same for all who see the same.
func (l *look) key() string {
	return fmt.Sprintf("%s %s %p %s", l.session.Rights(), l.session.How, l.session.Line(), l.Here())
}

// watch has a view made for one more who looks at it: at once, unless it is about a job that had ended when the page
// was made, to which nothing has happened since.
func (p *Page) watch(l *look, s *aScreen) chan template.HTML {
	p.streams.mu.Lock()
	defer p.streams.mu.Unlock()
	id, err := l.id()
	made, unknown := strconv.ParseUint(l.Query("rests"), 10, 64)
	rests := err == nil && unknown == nil && p.streams.quiet(int64(id), made)
	if one := p.streams.live[l.key()]; one != nil {
		return one.join(rests)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(l.Context()))
	one := &stream{watchers: map[chan template.HTML]struct{}{}, wake: make(chan struct{}, 1), stop: stop}
	if err == nil {
		one.job = int64(id)
	}
	if p.streams.live == nil {
		p.streams.live = map[string]*stream{}
	}
	p.streams.live[l.key()] = one
	changed := one.join(rests) // before it is made for the first time, which is soon enough
	go p.make(ctx, one, &look{Request: l.Request, page: p, session: l.session, rests: rests}, s)
	return changed
}

// join adds one who looks, with a page that is newer than the view: that gets the next one, though it may be the same
// again, and soon, unless the page is as new as any that would be made.
func (s *stream) join(rests bool) chan template.HTML {
	changed := make(chan template.HTML, 1)
	s.watchers[changed] = struct{}{}
	if s.newest = ""; !rests {
		s.rouse()
	}
	return changed
}

// quiet tells whether nothing has happened to a job behind an event, as far as that is known. Callers must hold mu.
func (s *streams) quiet(job int64, after uint64) bool {
	if after < s.since || after > s.newest || s.newest-after > uint64(len(s.recent)) {
		return false
	}
	for seq := after + 1; seq <= s.newest; seq++ {
		if s.recent[seq%uint64(len(s.recent))] == job {
			return false
		}
	}
	return true
}

// rouse has a view made anew that rests.
func (s *stream) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (p *Page) unwatch(l *look, changed chan template.HTML) {
	p.streams.mu.Lock()
	defer p.streams.mu.Unlock()
	one := p.streams.live[l.key()]
	if delete(one.watchers, changed); len(one.watchers) == 0 {
		one.stop()
		delete(p.streams.live, l.key())
	}
}

// make makes a view again and again while somebody looks at it. Of one that can't be made what there was
// stays, and why it can't is told in its place.
func (p *Page) make(ctx context.Context, one *stream, l *look, s *aScreen) {
	defer l.close()
	for rests, took := l.rests, guessed; ; rests = l.rests && !p.Master { // whose journal does not tell what happens to jobs
		if rests && !p.wait(ctx, one.wake, p.pause(one, atRest, longestRest, took)) {
			return
		}
		select {
		case <-one.wake: // what happened until now is seen
		default:
		}
		began := time.Now()
		l.ctx, l.now, l.notes, l.rests = ctx, time.Now(), nil, false
		main, err := p.main(l, s)
		if err != nil {
			main, err = p.render(l, "fail.html", lines(err))
		}
		if err == nil {
			p.tell(one, main)
		}
		took = time.Since(began)
		if !p.wait(ctx, nil, p.pause(one, s.live, longestPause, took)) {
			return
		}
	}
}

// wait waits for a while, or until it is woken; false: nobody looks any more.
func (*Page) wait(ctx context.Context, wake <-chan struct{}, long time.Duration) bool {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// Happened has views of jobs made anew to which something has happened, as far as this daemon's journal tells. Whoever
// appends to the journal waits for it.
func (p *Page) Happened(events []journal.Event) {
	p.streams.mu.Lock()
	defer p.streams.mu.Unlock()
	for _, e := range events {
		if p.streams.newest == 0 {
			p.streams.since = e.Seq - 1
		}
		p.streams.newest, p.streams.recent[e.Seq%uint64(len(p.streams.recent))] = e.Seq, e.Job
	}
	for _, one := range p.streams.live {
		if one.job != 0 && slices.ContainsFunc(events, func(e journal.Event) bool { return e.Job == one.job }) {
			one.rouse()
		}
	}
}

// What all views together take of the time at most, in thousandths, and while they rest, unless one would be older
// than longestPause then, or longestRest.
const (
	mostShare    = 20
	restShare    = 2
	longestPause = 10 * time.Second
	longestRest  = 5 * time.Minute
	guessed      = 10 * time.Millisecond // that one takes which was never made
)

// pause is how long a view that took so long to make is left as it is: the more is looked at, and the longer it
// takes to make, the more seldom each is made.
func (p *Page) pause(one *stream, least, most, took time.Duration) time.Duration {
	p.streams.mu.Lock()
	defer p.streams.mu.Unlock()
	one.took = took
	var all time.Duration
	for _, other := range p.streams.live {
		all += other.took
	}
	share := time.Duration(mostShare)
	if least == atRest {
		share = restShare
	}
	return max(least, min(most, all*1000/share))
}

// tell gives a view to all who look at it, where it has changed. Who has not taken the last one gets this
// one in its place.
func (p *Page) tell(one *stream, main template.HTML) {
	p.streams.mu.Lock()
	defer p.streams.mu.Unlock()
	if one.newest == main {
		return
	}
	one.newest = main
	for changed := range one.watchers {
		select {
		case <-changed:
		default:
		}
		changed <- main
	}
}

package page

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"jobd/cmd/internal/web"
)

// streams are the views that somebody looks at: each is made once for all who look at the same with the
// same rights, and sent where it has changed. Nobody looks: nothing is made.
type streams struct {
	mu   sync.Mutex
	live map[string]*stream
}

// stream is one view, and who looks at it.
type stream struct {
	watchers map[chan template.HTML]struct{}
	newest   template.HTML
	took     time.Duration // to make it
	joined   chan struct{} // has one when somebody has joined those who look
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

// watch has a view made for one more who looks at it, soon, whose page is newer than the view: that one gets what this
// making gives, though it may be the same again.
func (p *Page) watch(l *look, s *aScreen) chan template.HTML {
	p.streams.mu.Lock()
	defer p.streams.mu.Unlock()
	one := p.streams.live[l.key()]
	if one == nil {
		ctx, stop := context.WithCancel(context.WithoutCancel(l.Context()))
		one = &stream{watchers: map[chan template.HTML]struct{}{}, joined: make(chan struct{}, 1), stop: stop}
		if p.streams.live == nil {
			p.streams.live = map[string]*stream{}
		}
		p.streams.live[l.key()] = one
		go p.make(ctx, one, &look{Request: l.Request, page: p, session: l.session}, s)
	}
	changed := make(chan template.HTML, 1)
	one.watchers[changed] = struct{}{}
	one.newest = ""
	select {
	case one.joined <- struct{}{}:
	default:
	}
	return changed
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
	for pause := time.Hour; ; { // the first who looks has joined
		select {
		case <-time.After(pause):
		case <-one.joined:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		l.ctx, l.now, l.notes = ctx, began, nil
		main, err := p.main(l, s)
		if err != nil {
			main, err = p.render(l, "fail.html", lines(err))
		}
		if err == nil {
			p.tell(one, main)
		}
		pause = p.pause(one, time.Since(began))
		pause = pause/2 + rand.N(pause+1) - s.live // or all that were opened together would always be made together
		select {
		case <-time.After(s.live):
		case <-ctx.Done():
			return
		}
	}
}

// mostShare is what all views together take of the time at most, in thousandths, unless one would be older than
// longestPause then, and longerEach for each view that somebody looks at.
const (
	mostShare    = 15
	longestPause = 5 * time.Second
	longerEach   = time.Second
)

// pause is how long a view that took so long to make is left as it is: the more is looked at, and the longer it
// takes to make, the more seldom each is made.
func (p *Page) pause(one *stream, took time.Duration) time.Duration {
	p.streams.mu.Lock()
	defer p.streams.mu.Unlock()
	one.took = took
	var all time.Duration
	for _, other := range p.streams.live {
		all += other.took
	}
	return min(longestPause+time.Duration(len(p.streams.live))*longerEach, all*1000/mostShare)
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

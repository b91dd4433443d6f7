package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"jobd/cmd/internal/history"
)

// When progress is told: of what takes longer than progressDelay, each progressInterval.
const (
	progressDelay    = time.Second
	progressInterval = 200 * time.Millisecond
)

// widestBar is how long a bar is at most.
const widestBar = 40

// progress tells on stderr how far a long run is, where that is a terminal and the run takes long
// enough: as a bar, where it is known how much there is.
type progress struct {
	p     *program
	what  string
	all   uint64 // how much there is; 0: nobody knows
	next  time.Time
	shown bool
}

func (p *program) progress(what string) *progress {
	return &progress{p: p, what: what, next: p.now().Add(progressDelay)}
}

// of says how much there is.
func (g *progress) of(all uint64) *progress {
	g.all = all
	return g
}

// at shows that n were counted so far.
func (g *progress) at(n uint64) {
	if !g.p.errTerminal || g.p.variable("TERM") == "dumb" { // which takes no line back
		return
	}
	if now := g.p.now(); !now.Before(g.next) {
		fmt.Fprintf(g.p.err, "%s%s%s", g.p.ours("\r"), g.line(n), g.p.ours("\x1b[K"))
		g.next, g.shown = now.Add(progressInterval), true
	}
}

// line is what is shown, no wider than the terminal: a line that wraps can't be taken back.
func (g *progress) line(n uint64) string {
	columns := 80
	if g.p.errWidth != nil && g.p.errWidth() > 0 {
		columns = g.p.errWidth()
	}
	if g.all == 0 {
		return cut(fmt.Sprintf("%s %s", humanize.Comma(int64(n)), g.what), columns-1)
	}
	share := min(1, float64(n)/float64(g.all))
	text := fmt.Sprintf(" %3.0f %%  %s of %s %s", 100*share, humanize.Comma(int64(n)), humanize.Comma(int64(g.all)), g.what)
	if width := min(widestBar, columns-len(text)-3); width > 0 {
		done := int(share * float64(width))
		text = "[" + strings.Repeat("#", done) + strings.Repeat(".", width-done) + "]" + text
	}
	return cut(text, columns-1)
}

// end removes what is shown.
func (g *progress) end() {
	if g.shown {
		fmt.Fprint(g.p.err, g.p.ours("\r\x1b[K"))
		g.shown = false
	}
}

// size is how many events the sources have that a query of a time selects; 0: nobody knows, or
// wants to.
func (p *program) size(ctx context.Context, j *journals, q history.Query) (all uint64) {
	if !p.errTerminal || !q.Since.IsZero() || !q.Until.IsZero() {
		return 0
	}
	for _, s := range j.sources {
		n, err := sizeOf(ctx, s)
		if err != nil {
			return 0 // whoever reads it will say so
		}
		all += n
	}
	return all
}

// sizeOf is how many events one source has.
func sizeOf(ctx context.Context, s source) (uint64, error) {
	newest, err := s.anchor(ctx)
	if err != nil {
		return 0, err
	}
	removed, err := s.kept(ctx)
	if err != nil || removed == nil {
		return newest.Seq, err
	}
	return newest.Seq - min(newest.Seq, removed.First-1), nil
}

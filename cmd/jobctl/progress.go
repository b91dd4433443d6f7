package main

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
)

// progressInterval is how often progress is told.
const progressInterval = 200 * time.Millisecond

// progress tells on stderr how far a long run is, where that is a terminal and the run takes long
// enough.
type progress struct {
	p     *program
	what  string
	told  time.Time
	shown bool
}

func (p *program) progress(what string) *progress {
	return &progress{p: p, what: what, told: p.now()}
}

// at shows that n were counted so far.
func (g *progress) at(n uint64) {
	if !g.p.errTerminal {
		return
	}
	if now := g.p.now(); now.Sub(g.told) >= progressInterval {
		fmt.Fprintf(g.p.err, "%s%s %s%s", g.p.ours("\r"), humanize.Comma(int64(n)), g.what, g.p.ours("\x1b[K"))
		g.told, g.shown = now, true
	}
}

// end removes what is shown.
func (g *progress) end() {
	if g.shown {
		fmt.Fprint(g.p.err, g.p.ours("\r\x1b[K"))
	}
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"
)

// watchInterval is how often a page is made anew.
const watchInterval = 2 * time.Second

// watched prints a page once, or, where it is watched, again and again until somebody ends the run:
// in place on a terminal, elsewhere one behind the other. A daemon that can't be asked any more,
// because it starts again, say, is asked again; what is shown meanwhile says so.
func (p *program) watched(ctx context.Context, watch bool, print func(context.Context, *client) error) error {
	if !watch {
		return p.linked(ctx, print)
	}
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	for first := true; ; first = false {
		text, err := p.printed(func() error { return p.linked(ctx, print) })
		switch {
		case interrupted(ctx):
			return nil // as it should be
		case ctx.Err() != nil || first && err != nil && text == "":
			return err
		case err != nil && text == "":
			text = "jobctl: " + clean(err.Error()) + "; trying again\n"
		}
		if err := p.showPage(text, first); err != nil {
			return err
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
		}
	}
}

// printed is what a function prints.
func (p *program) printed(print func() error) (string, error) {
	var page bytes.Buffer
	out := p.out
	p.out = &page
	defer func() { p.out = out }()
	err := print()
	return page.String(), err
}

// sayBelow says in a page that is watched, and has something in it, what would be told on stderr.
func (p *program) sayBelow(err error) {
	if page, is := p.out.(*bytes.Buffer); !is || page.Len() == 0 || err == nil {
		return
	}
	fmt.Fprintln(p.out)
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(p.out, clean(line))
	}
}

// showPage shows one page.
func (p *program) showPage(text string, first bool) error {
	switch {
	case p.json():
	case p.terminal:
		text = p.ours("\x1b[H\x1b[2J") + p.clock(p.now()) + "\n\n" + text
	default:
		text = p.clock(p.now()) + "\n" + text
		if !first {
			text = "\n" + text
		}
	}
	_, err := fmt.Fprint(p.out, text)
	return err
}

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/history"
)

func (p *program) journalTimeline() *ffcli.Command {
	var span *window
	var file string
	c := p.journalCommand("timeline", "", "a picture: jobs as bars over time, in lanes by worker and slot", func(ctx context.Context, j *journals, _ []string) error {
		from, to, err := p.extent(ctx, j, span)
		if err != nil {
			return err
		}
		picture := newPicture(from, to, p.location)
		q := history.Query{Since: span.since.at, Until: span.until.at}
		count, progress := uint64(0), p.progress("events drawn").of(p.size(ctx, j, q))
		defer progress.end()
		for e, err := range j.events(ctx, q) {
			if err != nil {
				return err
			}
			picture.add(e)
			count++
			progress.at(count)
		}
		progress.end()
		picture.end()
		return p.writePicture(picture, file, filepath.Ext(file) == ".html")
	})
	span = p.windowFlags(c)
	checkFirst(c, func([]string) error {
		if kind := filepath.Ext(file); kind != ".svg" && kind != ".html" {
			return wrongUsage("journal timeline: --out %q is not allowed; allowed is a file whose name ends in .svg or .html", file)
		}
		return nil
	})
	c.FlagSet.StringVar(&file, "out", "", "the file to write, F.svg or F.html")
	return c
}

// extent is the time that a picture shows: what was asked for, as far as there are events.
func (p *program) extent(ctx context.Context, j *journals, span *window) (first, last time.Time, err error) {
	q := history.Query{Since: span.since.at, Until: span.until.at}
	err = j.each(func(s source) error {
		for e, err := range s.events(ctx, q) {
			if err != nil {
				return err
			}
			if first.IsZero() || e.Time.Before(first) {
				first = e.Time
			}
			break
		}
		newest := q
		newest.Last = 1
		for e, err := range s.events(ctx, newest) {
			if err != nil {
				return err
			}
			if e.Time.After(last) {
				last = e.Time
			}
		}
		return nil
	})
	if err == nil && first.IsZero() {
		err = errors.New("nothing happened in this time: there is nothing to draw")
	}
	return first, last, err
}

// writePicture writes the file, which takes the place of an older one only when it is complete.
func (p *program) writePicture(picture *picture, file string, html bool) (err error) {
	f, err := os.CreateTemp(filepath.Dir(file), ".timeline-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	if html {
		picture.html(w)
	} else {
		picture.svg(w)
	}
	err = cmp.Or(w.Flush(), f.Chmod(0o644))
	info, statErr := f.Stat()
	if err = errors.Join(err, statErr, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), file); err != nil {
		return err
	}
	if p.json() {
		return p.printJSON(map[string]any{"file": file, "bytes": info.Size(), "bars": picture.bars, "from": picture.from.UTC(), "to": picture.to.UTC()})
	}
	_, err = fmt.Fprintf(p.out, "%s: %s bars from %s to %s, %s\n", file, humanize.Comma(int64(picture.bars)),
		p.clock(picture.from), p.clock(picture.to), humanize.IBytes(uint64(info.Size())))
	return err
}

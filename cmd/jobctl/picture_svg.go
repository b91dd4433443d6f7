package main

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"
)

// The picture's measures, in pixels.
const (
	leftMargin  = 150
	rightMargin = 20
	topMargin   = 60
	laneHeight  = 14
	laneGap     = 2
	workerGap   = 24
)

// palette is the colours of targets, which are told apart by people who see few colours too.
// Further targets begin again.
var palette = [...]string{"#4477aa", "#66ccee", "#228833", "#ccbb44", "#aa3377", "#88aadd", "#999933", "#44aa99", "#ddaa77", "#332288"}

const unknownColour = "#aaaaaa"

func colourOf(target int) string {
	if target == noTarget {
		return unknownColour
	}
	return palette[target%len(palette)]
}

// html writes the picture as a page.
func (p *picture) html(w io.Writer) {
	fmt.Fprintf(w, "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>jobd timeline</title>\n"+
		"<style>body{margin:1em;font-family:sans-serif}svg{max-width:100%%;height:auto}rect:hover{opacity:.7}</style>\n")
	p.svg(w)
	fmt.Fprintln(w, "</html>")
}

// svg writes the picture.
func (p *picture) svg(w io.Writer) {
	height := topMargin
	for _, worker := range p.workers {
		height += max(1, len(worker.lanes))*(laneHeight+laneGap) + workerGap
	}
	width := leftMargin + plotWidth + rightMargin
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", width, height+20, width, height+20)
	fmt.Fprintf(w, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height+20)
	p.legend(w)
	p.axis(w, height)
	y := topMargin
	for _, worker := range p.workers {
		y = p.draw(w, worker, y)
	}
	fmt.Fprintln(w, "</svg>")
}

// legend tells what the colours and marks mean.
func (p *picture) legend(w io.Writer) {
	x := leftMargin
	entry := func(swatch, text string) {
		if x > leftMargin+plotWidth-60 {
			return
		}
		fmt.Fprintf(w, `<g transform="translate(%d 14)">%s<text x="16" y="10">%s</text></g>`+"\n", x, swatch, html.EscapeString(clean(text)))
		x += 30 + 7*len([]rune(text))
	}
	for i, target := range p.targets {
		if i == 12 {
			entry("", fmt.Sprintf("and %d more", len(p.targets)-i))
			break
		}
		entry(fmt.Sprintf(`<rect width="12" height="12" fill="%s"/>`, colourOf(i)), target)
	}
	entry(`<rect width="12" height="12" fill="#ddd"/><rect y="9" width="12" height="3" fill="#d00"/>`, "failed")
	entry(`<path d="M2 0h8l-4 7z" fill="#000"/>`, "signal")
	entry(`<rect width="12" height="12" fill="#eee" stroke="#bbb"/>`, "worker away")
	entry(`<path d="M6 0v12" stroke="#d00" stroke-width="2"/>`, "start after a crash")
}

// axis draws the ticks.
func (p *picture) axis(w io.Writer, height int) {
	step := tickStep(p.to.Sub(p.from))
	format := "15:04:05"
	if step >= time.Minute {
		format = "15:04"
	}
	if p.to.Sub(p.from) > 36*time.Hour {
		format = "01-02 15:04"
	}
	fmt.Fprintf(w, `<text x="4" y="24">%s</text><text x="4" y="38">%s</text>`+"\n",
		p.from.In(p.location).Format(time.DateTime), p.to.In(p.location).Format(time.DateTime))
	_, offset := p.from.In(p.location).Zone()
	shift := time.Duration(offset) * time.Second
	for at := p.from.Add(shift).Truncate(step).Add(-shift); !at.After(p.to); at = at.Add(step) {
		if at.Before(p.from) {
			continue
		}
		x := leftMargin + p.x(at)
		fmt.Fprintf(w, `<path d="M%.1f %dV%d" stroke="#e4e4e4"/><text x="%.1f" y="%d" text-anchor="middle" fill="#666">%s</text>`+"\n",
			x, topMargin-10, height, x, topMargin-14, at.In(p.location).Format(format))
	}
}

// tickStep is a round step that gives a dozen ticks or fewer.
func tickStep(span time.Duration) time.Duration {
	for _, step := range []time.Duration{
		time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour,
	} {
		if span <= 12*step {
			return step
		}
	}
	return (span / 10).Truncate(24 * time.Hour)
}

// draw draws a worker and gives where the next one begins.
func (p *picture) draw(w io.Writer, worker *drawnWorker, y int) int {
	high := max(1, len(worker.lanes)) * (laneHeight + laneGap)
	fmt.Fprintf(w, `<text x="4" y="%d" font-weight="bold">%s</text>`+"\n", y+laneHeight-3, html.EscapeString(clean(worker.name)))
	for _, away := range worker.outages {
		from, to := p.x(away.from), p.x(away.to)
		fmt.Fprintf(w, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#eee" stroke="#bbb"/>`+"\n", leftMargin+from, y, max(to-from, .5), high)
	}
	for i, l := range worker.lanes {
		top := y + i*(laneHeight+laneGap)
		fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="end" fill="#666">%d</text>`+"\n", leftMargin-6, top+laneHeight-3, i+1)
		p.drawCells(w, l, top)
		p.drawBars(w, l, top)
		p.drawMarks(w, l, top)
	}
	for _, away := range worker.outages {
		colour, what := "#666", "started"
		if away.crash {
			colour, what = "#d00", "started after a crash"
		}
		fmt.Fprintf(w, `<path d="M%.1f %dv%d" stroke="%s" stroke-width="2"><title>%s %s</title></path>`+"\n",
			leftMargin+p.x(away.to), y-3, high+4, colour, what, away.to.In(p.location).Format(time.DateTime))
	}
	return y + high + workerGap
}

// drawCells draws the pixels of narrow bars: one path for each colour and strength.
func (p *picture) drawCells(w io.Writer, l *lane, top int) {
	type look struct {
		target int16
		level  int
	}
	paths, failed := map[look]*strings.Builder{}, &strings.Builder{}
	var order []look
	for x := 0; x < plotWidth; {
		c := l.cells[x]
		if c.used == 0 {
			x++
			continue
		}
		key, end := look{c.target, c.level()}, x+1
		for end < plotWidth && l.cells[end].used > 0 && (look{l.cells[end].target, l.cells[end].level()}) == key && l.cells[end].failed == c.failed {
			end++
		}
		if paths[key] == nil {
			paths[key] = &strings.Builder{}
			order = append(order, key)
		}
		fmt.Fprintf(paths[key], "M%d %dh%dv%dh-%dz", leftMargin+x, top, end-x, laneHeight, end-x)
		if c.failed {
			fmt.Fprintf(failed, "M%d %dh%dv3h-%dz", leftMargin+x, top+laneHeight-3, end-x, end-x)
		}
		x = end
	}
	for _, key := range order {
		fmt.Fprintf(w, `<path fill="%s" opacity="%.1f" d="%s"/>`+"\n", colourOf(int(key.target)), float64(key.level)/10, paths[key])
	}
	if failed.Len() > 0 {
		fmt.Fprintf(w, `<path fill="#d00" d="%s"/>`+"\n", failed)
	}
}

// level is how strong a pixel is drawn, in tenths.
func (c pixel) level() int {
	switch {
	case c.used > 0.66:
		return 10
	case c.used > 0.33:
		return 7
	}
	return 4
}

// drawBars draws the bars that are wide enough to be told apart.
func (p *picture) drawBars(w io.Writer, l *lane, top int) {
	for _, b := range l.bars {
		from, to := leftMargin+p.x(b.start), leftMargin+p.x(b.end)
		target := "?"
		if b.target != noTarget {
			target = p.targets[b.target]
		}
		fmt.Fprintf(w, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s</title></rect>`+"\n", from, top, max(to-from-.5, 1), laneHeight, colourOf(b.target),
			html.EscapeString(clean(fmt.Sprintf("%s, %s, %s: %s", b.name(), target, p.times(b), b.told()))))
		if b.failed {
			fmt.Fprintf(w, `<path fill="#d00" d="M%.1f %dh%.1fv3h-%.1fz"/>`+"\n", from, top+laneHeight-3, to-from-.5, to-from-.5)
		}
	}
}

// drawMarks draws the signals.
func (p *picture) drawMarks(w io.Writer, l *lane, top int) {
	var path strings.Builder
	pixels := make([]int, 0, len(l.marks))
	for x := range l.marks {
		pixels = append(pixels, x)
	}
	slices.Sort(pixels)
	for _, x := range pixels {
		fmt.Fprintf(&path, "M%d %dh8l-4 7z", leftMargin+x-4, top)
	}
	if path.Len() > 0 {
		fmt.Fprintf(w, `<path fill="#000" d="%s"/>`+"\n", path.String())
	}
}

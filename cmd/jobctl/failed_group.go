package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	jobnet "jobd/net"
)

// failureGroup is failures that ended alike.
type failureGroup struct {
	exit, line  string
	count       int
	first, last time.Time
	example     *failure // the newest
}

// numbers are those of a line.
var numbers = regexp.MustCompile(`\d+`)

// alike is the line without what differs from job to job: its own id; and where jobd itself says why the
// outcome is unknown, every number, which are those of jobs and processes.
func (f *failure) alike() string {
	id := strconv.FormatInt(f.job, 10)
	unknown := strings.HasPrefix(f.done.Reason, unknownOutcome)
	return numbers.ReplaceAllStringFunc(f.line, func(number string) string {
		if unknown || number == id {
			return "#"
		}
		return number
	})
}

// groupsOf counts failures by exit code and last line of stderr, those of which there are most first.
// The line is that of the newest.
func groupsOf(all []*failure) []*failureGroup {
	type key struct{ exit, line string }
	groups := map[key]*failureGroup{}
	var list []*failureGroup
	for _, f := range all { // the newest first
		k := key{f.exit(), f.alike()}
		g := groups[k]
		if g == nil {
			g = &failureGroup{exit: k.exit, line: f.line, last: f.ended, example: f}
			groups[k] = g
			list = append(list, g)
		}
		g.count++
		g.first = f.ended
	}
	slices.SortStableFunc(list, func(a, b *failureGroup) int { return cmp.Or(b.count-a.count, b.last.Compare(a.last)) })
	return list
}

// printGroups prints how many jobs failed alike.
func (p *program) printGroups(ctx context.Context, j *journals, w failedWish) error {
	list, err := p.collect(ctx, j, w)
	if err != nil {
		return err
	}
	found := p.report(false, "no job has failed"+w.when(p), "COUNT", "EXIT", "FIRST", "LAST", "JOB", "STDERR")
	found.table.elastic = "STDERR"
	for _, g := range groupsOf(list.all) {
		form := struct {
			Count  int          `json:"count"`
			Code   *int         `json:"code,omitempty"`
			Signal string       `json:"signal,omitempty"`
			Line   string       `json:"line,omitempty"`
			First  int64        `json:"first"`
			Last   int64        `json:"last"`
			Job    jobnet.Whole `json:"job"` // the newest of them
			Worker string       `json:"worker,omitempty"`
		}{
			g.count, g.example.done.Code, g.example.done.Signal, g.line, g.first.UnixMilli(), g.last.UnixMilli(),
			jobnet.Whole(g.example.job), g.example.worker,
		}
		if err := found.add("", form, bad, g.count, g.exit, p.clock(g.first), p.clock(g.last), g.example.job, g.line); err != nil {
			return found.end(err)
		}
	}
	if len(list.all) == 0 {
		p.noteUnserved(ctx, w.target)
	}
	if err := found.end(list.unchecked); err != nil {
		return err
	}
	if list.more && !p.json() {
		return p.sayNone(fmt.Sprintf("of the newest %d%s", len(list.all), w.when(p)))
	}
	return nil
}

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"jobd/net/api"
)

// printExecutors prints how those stand that run jobs otherwise than in a process for each; nothing
// where there are none, or where workers are older and do not tell. A worker's name is shown where
// there may be several.
func (p *program) printExecutors(s *census) {
	t := table{head: []string{"TARGET", "EXECUTOR", "PROCESSES", "READY", "BUSY", "BOOTING", "JOBS", "REPLACED"}, elastic: "NAME|TARGET|REPLACED"}
	if s.master != nil {
		t.head = slices.Insert(t.head, 0, "NAME")
	}
	var unready strings.Builder
	for _, w := range s.workers {
		if w.err != nil || w.answer == nil {
			continue
		}
		for i := range w.answer.Executors {
			e := &w.answer.Executors[i]
			cells := executorCells(e)
			whose := ""
			if s.master != nil {
				cells = slices.Insert(cells, 0, line(w.from.name))
				whose = "worker " + clean(w.from.name) + ": "
			}
			t.add(cells...)
			switch since := p.sinceText(time.UnixMilli(e.Since)); {
			case e.Unready != "":
				fmt.Fprintf(&unready, "%sno job of target %s can be started since %s: %s\n", whose, clean(e.Target), since, said(e.Unready))
			case e.Failing != "":
				fmt.Fprintf(&unready, "%sno new process for target %s gets ready since %s, those that are there go on: %s\n", whose, clean(e.Target), since, said(e.Failing))
			}
			if e.Stranger != "" {
				fmt.Fprintf(&unready, "%starget %s, %s: %s\n", whose, clean(e.Target), p.sinceText(time.UnixMilli(e.StrangerAt)), said(e.Stranger))
			}
		}
	}
	if len(t.rows) == 0 {
		return
	}
	fmt.Fprintln(p.out)
	p.print(t)
	p.paragraph(unready.String())
}

// said is a reason with what a process wrote before it ended: where that has several lines they stand
// below, indented, as they were written.
func said(reason string) string {
	reason = strings.TrimRight(reason, "\r\n")
	if !strings.Contains(reason, "\n") {
		return clean(reason)
	}
	const wrote = "; it wrote:"
	if before, text, found := strings.Cut(reason, wrote+" "); found {
		reason = before + wrote + "\n" + text
	}
	lines := strings.Split(reason, "\n")
	for i, line := range lines {
		lines[i] = clean(strings.TrimRight(line, "\r"))
	}
	return strings.Join(lines, "\n    ")
}

// executorCells are the line of one. Requests have no processes.
func executorCells(e *api.ExecutorStatus) []cell {
	processes, ready, booting := fmt.Sprint(e.Processes), fmt.Sprint(e.Ready), fmt.Sprint(e.Booting)
	if !e.Kept() {
		processes, ready, booting = "", "", ""
	}
	return []cell{
		line(e.Target), line(e.Mode), line(processes), line(ready), line(e.Busy), line(booting),
		line(humanize.Comma(e.Jobs)), line(replacedText(e.Recycled)),
	}
}

// replacedText is how many processes were replaced, and why, the most frequent reason first.
func replacedText(by map[string]int64) string {
	reasons := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) })
	all, texts := int64(0), make([]string, 0, len(reasons))
	for _, reason := range reasons {
		all += by[reason]
		texts = append(texts, fmt.Sprintf("%s %s", reason, humanize.Comma(by[reason])))
	}
	if all == 0 {
		return "0"
	}
	return fmt.Sprintf("%s (%s)", humanize.Comma(all), strings.Join(texts, ", "))
}

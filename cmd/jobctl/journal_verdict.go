package main

import (
	"fmt"
	"strings"

	"jobd/cmd/internal/history"
	"jobd/journal/verify"
)

// printVerdict prints what a verification found, in words and, where not everything is of one kind,
// as a table of ranges.
func (p *program) printVerdict(s source, v history.Verdict) error {
	if p.json() {
		return p.printJSON(struct {
			Worker string `json:"worker,omitempty"`
			history.Verdict
		}{s.worker(), v})
	}
	var text strings.Builder
	if s.worker() != "" {
		fmt.Fprintf(&text, "%s: ", clean(s.worker()))
	}
	colour := good
	if v.Sound {
		p.sayVerified(&text, v)
	} else {
		colour = bad
		text.WriteString(sayDamaged(v))
	}
	if _, err := fmt.Fprintln(p.out, p.paint(text.String(), colour)); err != nil {
		return err
	}
	if len(v.Ranges) > 1 || !v.Sound && len(v.Ranges) > 0 {
		p.print(tableOf(v.Ranges))
	}
	return p.printFaults(v)
}

func (p *program) sayVerified(text *strings.Builder, v history.Verdict) {
	count := v.Events
	if v.First > 0 {
		count = v.Events - v.First + 1
	}
	fmt.Fprintf(text, "verified: %d events", count)
	if v.First > 1 {
		fmt.Fprintf(text, " from %d on, before which retention has removed what was there", v.First)
	}
	if count > 0 {
		fmt.Fprintf(text, ", the last of %s with hash %s", p.clock(v.Time), v.Hash)
	}
	text.WriteString(sayAnchors(v))
	if v.Unproven > 0 {
		fmt.Fprintf(text, "\nnote: events up to %d were removed before removals were journalled. Only a note outside of the chain says that "+
			"retention did it; anchors or an archive can show more", v.Unproven)
	}
}

func sayAnchors(v history.Verdict) string {
	text := ""
	if v.Compared+v.Unanswered > 0 {
		text = fmt.Sprintf("\nanchors: %d agree", v.Compared)
	}
	if v.Unanswered > 0 {
		text += fmt.Sprintf(", %d are about events that retention has removed", v.Unanswered)
	}
	if v.Proven > 0 {
		text += fmt.Sprintf("\nproven up to event %d", v.Proven)
	}
	return text
}

// sayDamaged says how much is not as it was written. An older worker tells no ranges.
func sayDamaged(v history.Verdict) string {
	events := map[verify.Verdict]uint64{}
	for _, r := range v.Ranges {
		events[r.Verdict] += r.Last - r.First + 1
	}
	var parts []string
	for _, verdict := range []verify.Verdict{verify.Missing, verify.Damaged} {
		switch n := events[verdict]; {
		case n == 1:
			parts = append(parts, fmt.Sprintf("1 event is %s", verdict))
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d events are %s", n, verdict))
		}
	}
	files := map[string]bool{}
	for _, f := range v.Faults {
		if f.File != "" && !files[f.File] {
			files[f.File] = true
			parts = append(parts, "file "+clean(f.File)+" is damaged")
		}
	}
	text := "not as it was written"
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	if len(v.Ranges) == 0 && v.Events > 0 {
		text += fmt.Sprintf("\nnothing wrong was met up to event %d", v.Events)
	}
	if v.FirstBad > 0 {
		text += fmt.Sprintf("\nfirst bad sequence number: %d", v.FirstBad)
	}
	return text + sayAnchors(v)
}

func tableOf(ranges []history.Range) table {
	t := table{head: []string{"EVENTS", "COUNT", "VERDICT", "WHY"}, elastic: "WHY"}
	for _, r := range ranges {
		t.add(line(fmt.Sprintf("%d-%d", r.First, r.Last)), line(r.Last-r.First+1), line(r.Verdict), line(r.Detail))
	}
	return t
}

// printFaults prints what is wrong besides: with files, and what contradicts events.
func (p *program) printFaults(v history.Verdict) error {
	var text strings.Builder
	for _, f := range v.Faults {
		switch {
		case f.File != "" && f.Event > 0:
			fmt.Fprintf(&text, "%s, event %d: ", clean(f.File), f.Event)
		case f.File != "":
			fmt.Fprintf(&text, "%s: ", clean(f.File))
		case f.Event > 0:
			fmt.Fprintf(&text, "event %d: ", f.Event)
		}
		text.WriteString(clean(f.Detail) + "\n")
	}
	if v.More > 0 {
		fmt.Fprintf(&text, "%d more\n", v.More)
	}
	_, err := fmt.Fprint(p.out, text.String())
	return err
}

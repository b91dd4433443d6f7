package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	"jobd/journal"
)

func (p *program) journalVerify() *cmd {
	var file string
	c := p.journalCommand("verify", "", "check that nothing is missing, damaged or altered", func(ctx context.Context, j *operator.Journals, _ []string) error {
		known, err := readAnchors(file)
		if err != nil {
			return err
		}
		var unsound []error
		err = j.Each(func(s operator.Source) error {
			anchors, err := known.of(ctx, s, file)
			if err != nil {
				return err
			}
			verdict, err := s.Audit(ctx, anchors, func(uint64) {})
			if err != nil {
				return err
			}
			if !verdict.Sound {
				unsound = append(unsound, operator.Named(s.Worker(), errors.New(verdict.Error)))
			}
			p.printVerdict(s, verdict)
			return nil
		})
		return errors.Join(err, errors.Join(unsound...))
	})
	c.FlagSet.StringVar(&file, "anchor", "", "compare with the anchors in this file, which 'journal anchor' wrote")
	return c
}

func (p *program) journalAnchor() *cmd {
	var file string
	c := p.journalCommand("anchor", "", "the newest event's number and hash: keep them out of reach of all who can change the journal", func(ctx context.Context, j *operator.Journals, _ []string) error {
		var lines strings.Builder
		err := j.Each(func(s operator.Source) error {
			anchor, err := s.Anchor(ctx)
			if err != nil || anchor.Seq == 0 {
				return err // nothing has happened yet that could be lost
			}
			if p.json() {
				p.printJSON(struct {
					Worker string `json:"worker,omitempty"`
					history.AnchorAnswer
				}{s.Worker(), history.AnchorAnswer{Seq: anchor.Seq, Hash: anchor.Hash.String()}})
				return nil
			}
			lines.WriteString(anchor.String())
			if s.Worker() != "" {
				lines.WriteString(" " + clean(s.Worker()))
			}
			lines.WriteByte('\n')
			return nil
		})
		if err != nil || p.json() {
			return err
		}
		if file == "" {
			p.say("%s", lines.String())
			return nil
		}
		return appendTo(file, lines.String())
	})
	c.FlagSet.StringVar(&file, "out", "", "append it to this file instead of printing it")
	return c
}

// appendTo adds lines to a file of anchors, durably: it is evidence.
func appendTo(file, lines string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(lines)
	return errors.Join(err, f.Sync(), f.Close())
}

// anchorFile is the anchors of a file, by the worker that stands behind them; "" where none does.
type anchorFile map[string][]journal.Anchor

// readAnchors reads what journal anchor wrote: a number, a hash and, from a master, a worker's name
// on each line.
func readAnchors(file string) (anchorFile, error) {
	known := anchorFile{}
	if file == "" {
		return known, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read anchors: %w", err)
	}
	n := 0
	for text := range strings.Lines(string(content)) {
		n++
		if text = strings.TrimSpace(text); text == "" || text[0] == '#' {
			continue
		}
		words := strings.SplitN(text, " ", 3)
		worker := ""
		if len(words) == 3 {
			worker = words[2] // which may have blanks in it
		}
		anchor, err := journal.ParseAnchor(strings.Join(words[:min(2, len(words))], " "))
		if err != nil {
			return nil, fmt.Errorf("read anchors: %s, line %d: %w", file, n, err)
		}
		known[worker] = append(known[worker], anchor)
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("read anchors: %s has none, so nothing can be compared", file)
	}
	return known, nil
}

// of gives the anchors that are about a source: those of the worker's own name. A line without a
// name is of whatever journal it is compared with.
func (f anchorFile) of(ctx context.Context, s operator.Source, file string) ([]journal.Anchor, error) {
	if len(f) == 0 {
		return nil, nil
	}
	name := s.Worker()
	if own, err := s.JournalName(ctx); err != nil {
		return nil, err
	} else if own != "" {
		name = own
	}
	anchors := f[""]
	if name != "" {
		if anchors = f[clean(name)]; s.Worker() == "" {
			anchors = slices.Concat(f[""], anchors)
		}
	}
	if len(anchors) > 0 {
		return anchors, nil
	}
	if s.Worker() != "" {
		return nil, fmt.Errorf("%s has no anchor of this worker", file)
	}
	if name == "" {
		return nil, fmt.Errorf("%s has anchors of named workers only, and the journal does not say which worker's it is", file)
	}
	return nil, fmt.Errorf("%s has no anchor of worker '%s', whose journal this is", file, clean(name))
}

// printVerdict prints what a verification found.
func (p *program) printVerdict(s operator.Source, v history.Verdict) {
	if p.json() {
		p.printJSON(struct {
			Worker string `json:"worker,omitempty"`
			history.Verdict
		}{s.Worker(), v})
		return
	}
	var text strings.Builder
	if s.Worker() != "" {
		fmt.Fprintf(&text, "%s: ", clean(s.Worker()))
	}
	colour := good
	if v.Sound {
		p.sayVerified(&text, v)
	} else {
		colour = bad
		text.WriteString(sayDamaged(v))
	}
	p.say("%s\n", p.paint(text.String(), colour))
}

func (p *program) sayVerified(text *strings.Builder, v history.Verdict) {
	count := v.Events
	if v.First > 0 {
		count = v.Events - v.First + 1
	}
	fmt.Fprintf(text, "verified: %d events", count)
	if v.First > 1 {
		fmt.Fprintf(text, " from %d on (retention has removed those before)", v.First)
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

// sayDamaged says how far a journal is as it was written.
func sayDamaged(v history.Verdict) string {
	text := fmt.Sprintf("not as it was written: sound up to event %d", v.Events)
	if v.FirstBad > 0 {
		text += fmt.Sprintf("\nfirst bad sequence number: %d", v.FirstBad)
	}
	return text + sayAnchors(v)
}

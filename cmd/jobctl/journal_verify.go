package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/history"
	"jobd/journal"
)

func (p *program) journalVerify() *ffcli.Command {
	var file string
	c := p.journalCommand("verify", "", "check that nothing is missing, damaged or altered", func(ctx context.Context, j *journals, _ []string) error {
		known, err := readAnchors(file)
		if err != nil {
			return err
		}
		var unsound []error
		err = j.each(func(s source) error {
			anchors, err := known.of(ctx, s, file)
			if err != nil {
				return err
			}
			progress := p.progress("events verified")
			if p.errTerminal {
				newest, err := s.anchor(ctx)
				if err == nil { // else the audit says so
					progress.of(newest.Seq)
				}
			}
			verdict, err := s.audit(ctx, anchors, progress.at)
			progress.end()
			if err != nil {
				return err
			}
			if !verdict.Sound {
				unsound = append(unsound, named(s, errors.New(verdict.Error)))
			}
			return p.printVerdict(s, verdict)
		})
		return errors.Join(err, errors.Join(unsound...))
	})
	c.FlagSet.StringVar(&file, "anchor", "", "compare with the heads in this file, which journal anchor wrote earlier")
	return c
}

// named is an error with the worker's name, where there are several.
func named(s source, err error) error {
	if s.worker() == "" {
		return err
	}
	return fmt.Errorf("worker '%s': %w", clean(s.worker()), err)
}

func (p *program) journalAnchor() *ffcli.Command {
	var file string
	c := p.journalCommand("anchor", "", "the newest event's number and hash, to be kept where nobody who can change the journal can reach", func(ctx context.Context, j *journals, _ []string) error {
		var lines strings.Builder
		err := j.each(func(s source) error {
			anchor, err := s.anchor(ctx)
			if err != nil || anchor.Seq == 0 {
				return err // nothing has happened yet that could be lost
			}
			if p.json() {
				return p.printJSON(struct {
					Worker string `json:"worker,omitempty"`
					history.AnchorAnswer
				}{s.worker(), history.AnchorAnswer{Seq: anchor.Seq, Hash: anchor.Hash.String()}})
			}
			lines.WriteString(anchor.String())
			if s.worker() != "" {
				lines.WriteString(" " + clean(s.worker()))
			}
			lines.WriteByte('\n')
			return nil
		})
		if err != nil || p.json() {
			return err
		}
		if file == "" {
			_, err = fmt.Fprint(p.out, lines.String())
			return err
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
		return nil, fmt.Errorf("read anchors: %s has none: there would be nothing to compare with", file)
	}
	return known, nil
}

// of gives the anchors that are about a source: those of the worker's own name. A line without a
// name is of whatever journal it is compared with.
func (f anchorFile) of(ctx context.Context, s source, file string) ([]journal.Anchor, error) {
	if len(f) == 0 {
		return nil, nil
	}
	name := s.worker()
	if own, err := s.journalName(ctx); err != nil {
		return nil, err
	} else if own != "" {
		name = own
	}
	anchors := f[""]
	if name != "" {
		if anchors = f[clean(name)]; s.worker() == "" {
			anchors = slices.Concat(f[""], anchors)
		}
	}
	if len(anchors) > 0 {
		return anchors, nil
	}
	if s.worker() != "" {
		return nil, fmt.Errorf("%s has no anchor of this worker", file)
	}
	if name == "" {
		return nil, fmt.Errorf("%s has anchors of named workers only, and the journal does not say which worker's it is", file)
	}
	return nil, fmt.Errorf("%s has no anchor of worker '%s', whose journal this is", file, clean(name))
}

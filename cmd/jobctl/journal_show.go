package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/journal"
)

func (p *program) journalShow() *ffcli.Command {
	return journalCommand("show", " ID", "one job's whole history, its durations and its output", func(ctx context.Context, r *journal.Reader, args []string) error {
		if len(args) != 1 {
			return wrongUsage("journal show: needs one job's ID, got %q", args)
		}
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || id < 1 {
			return wrongUsage("journal show: job %q is not allowed; allowed is a whole number of at least 1", args[0])
		}
		var claim history
		last := uint64(0)
		for e, err := range r.Events(ctx, journal.Filter{Job: id, Output: true}) {
			if err != nil {
				return err
			}
			claim.add(e)
			last = e.Seq
			if err := p.printEvent(e); err != nil {
				return err
			}
		}
		if last == 0 {
			return fmt.Errorf("job %d: the journal knows nothing of it", id)
		}
		if !p.json() {
			p.printHistory(claim)
		}
		return nil
	})
}

// history is what became of the newest claim of a job.
type history struct {
	accepted, running, ended time.Time
	done                     *journal.Done
}

func (h *history) add(e journal.Event) {
	switch payload := e.Payload.(type) {
	case journal.Accepted:
		*h = history{accepted: e.Time}
	case journal.Running:
		h.running = e.Time
	case journal.Released:
		h.ended = e.Time
	case journal.Done:
		h.ended, h.done = e.Time, &payload
	}
}

// printHistory prints how long things took, and what the job printed.
func (p *program) printHistory(h history) {
	fmt.Fprintln(p.out)
	for _, span := range []struct {
		name     string
		from, to time.Time
	}{{"waited", h.accepted, h.running}, {"ran", h.running, h.ended}, {"in all", h.accepted, h.ended}} {
		if !span.from.IsZero() && !span.to.IsZero() {
			fmt.Fprintf(p.out, "%-7s %v\n", span.name, span.to.Sub(span.from))
		}
	}
	if h.done == nil {
		return
	}
	p.printOutput("stdout", h.done.Stdout)
	p.printOutput("stderr", h.done.Stderr)
}

func (p *program) printOutput(name string, output journal.Output) {
	fmt.Fprintf(p.out, "\n%s: %d bytes\n", name, output.Size)
	fmt.Fprint(p.out, withNewline(output.Text(0, journal.CharsetFull)))
}

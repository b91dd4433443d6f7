package reconcile

import (
	"context"
	"log/slog"
	"time"

	"jobd/journal"
)

// Reapply is the wish to have rows brought back to what a journal says.
type Reapply struct {
	Config
	Logger *slog.Logger

	By      string    // who wants it
	Since   time.Time // only jobs to which something happened from this time on; zero: all
	Folder  string    // the folder of the lost worker's journal, for the log; "": the worker's own
	Worker  string    // the worker's name
	Targets []string  // that the worker serves: rows of these may be unknown

	DryRun bool // only show what would be done
	// Retried are rows that were set back after an end, as other workers' journals say: the
	// time_finished of that end. What this journal knows of it, or of an earlier one, is over.
	Retried map[int64]int64

	AcceptUnknown bool    // go on although nobody can tell of some rows that wait whether they have run
	Among         []int64 // for Unknown: only these rows, whenever they were created; nil: all

	// Note makes an event part of the worker's own journal.
	Note func(journal.Reapplied) error
	// Visit is told of each row that differed, what was done with it.
	Visit func(Result) error
}

// What is done with a row that differs, in the words that clients get.
const (
	didApply   = "applied"
	wouldApply = "would apply" // in a dry run
	didRefuse  = "refused"     // it is left as found
)

// Result is what was done with a row that differed.
type Result struct {
	Difference
	Did     string
	Refusal string // why it was left as found
	Journal string // the name of the lost worker whose journal says so; "": the worker's own
}

// reapplying is one reapply under way.
type reapplying struct {
	wish *Reapply
	*comparison
	event   journal.Reapplied // the next one to be journalled
	changed int               // rows
	refused int               // rows
}

// begin finds out what to reapply.
func (r *Reapply) begin(ctx context.Context) (*reapplying, error) {
	c, err := begin(ctx, r.Config)
	if err != nil {
		return nil, err
	}
	p := &reapplying{wish: r, comparison: c, event: journal.Reapplied{By: r.By}}
	if p.event.From, err = r.Journal.First(ctx); err != nil {
		return nil, err
	}
	anchor, err := r.Journal.Anchor(ctx)
	if err != nil {
		return nil, err
	}
	p.event.To = anchor.Seq
	if !r.Since.IsZero() {
		p.event.Since = r.Since.UnixMicro()
	}
	if p.tail == nil {
		p.event.Hash = anchor.Hash.String()
		p.event.Journal, err = nameIn(ctx, r.Journal)
	}
	return p, err
}

// noteBeginning journals, once, that rows are about to be changed.
func (p *reapplying) noteBeginning() error {
	if p.changed > 0 || p.event.Ended {
		return nil
	}
	if err := p.wish.Note(p.event); err != nil {
		return err
	}
	p.event.Ended = true // the next event is the end
	return nil
}

// noteEnd journals what was done.
func (p *reapplying) noteEnd() error {
	if !p.event.Ended {
		return nil
	}
	p.event.Rows, p.event.Refused = p.changed, p.refused
	return p.wish.Note(p.event)
}

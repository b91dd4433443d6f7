package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/journal"
)

// followInterval is how often --follow looks for new events. The worker is another process, which
// tells nobody when it appends.
const followInterval = 200 * time.Millisecond

func (p *program) journalLog() *ffcli.Command {
	var (
		filter       journal.Filter
		kinds        kindsFlag
		since, until = timeFlag{p: p}, timeFlag{p: p}
		follow       bool
	)
	c := journalCommand("log", "", "the events, one a line", func(ctx context.Context, r *journal.Reader, args []string) error {
		if len(args) > 0 {
			return wrongUsage("journal log: takes no arguments, got %q", args)
		}
		if filter.Job < 0 || filter.Last < 0 {
			return wrongUsage("journal log: --job and -n are not allowed to be below 0")
		}
		filter.Kinds, filter.Since, filter.Until = kinds, since.at, until.at
		if follow {
			return p.followEvents(ctx, r, filter)
		}
		return p.printEvents(ctx, r, filter, new(uint64))
	})
	c.FlagSet.Int64Var(&filter.Job, "job", 0, "only events of this job")
	c.FlagSet.StringVar(&filter.Target, "target", "", "only events of this target and its jobs")
	c.FlagSet.Var(&kinds, "kind", "only events of these kinds: "+strings.Join(kindNames(), ","))
	c.FlagSet.Var(&since, "since", "only events from this time on: 2026-11-20 14:00, 2h (ago), or unix time")
	c.FlagSet.Var(&until, "until", "only events before this time")
	c.FlagSet.IntVar(&filter.Last, "n", 0, "only the newest N of them")
	c.FlagSet.BoolVar(&follow, "follow", false, "go on with the events to come, until interrupted")
	return c
}

// followEvents prints what there is, and then what is appended, until ctx ends.
func (p *program) followEvents(ctx context.Context, r *journal.Reader, filter journal.Filter) error {
	ticker := time.NewTicker(followInterval)
	defer ticker.Stop()
	var seen uint64
	for {
		newest, err := r.Newest(ctx)
		if err == nil && newest != seen {
			err = p.printEvents(ctx, r, filter, &seen)
			seen = max(seen, newest)
			filter.After, filter.Last = seen, 0
		}
		if errors.Is(context.Cause(ctx), context.Canceled) {
			return nil // interrupted, as it should be
		}
		if err != nil {
			return why(ctx, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// printEvents prints the selected events and notes the last one's sequence number.
func (p *program) printEvents(ctx context.Context, r *journal.Reader, filter journal.Filter, last *uint64) error {
	for e, err := range r.Events(ctx, filter) {
		if err != nil {
			return err
		}
		if err := p.printEvent(e); err != nil {
			return err
		}
		*last = e.Seq
	}
	return nil
}

func (p *program) printEvent(e journal.Event) error {
	if p.json() {
		return p.printJSON(eventJSON(e))
	}
	about := "worker"
	if e.Job != 0 {
		about = fmt.Sprintf("job %d", e.Job)
	}
	text := fmt.Sprintf("%s %8d  %-12s %-15s %s", p.stamp(e.Time), e.Seq, about, e.Kind(), describe(e.Payload))
	_, err := fmt.Fprintln(p.out, strings.TrimRight(text, " "))
	return err
}

func (p *program) printJSON(value any) error {
	encoder := json.NewEncoder(p.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// eventForm is an event as JSON. A job's output is there if it was read.
type eventForm struct {
	Seq     uint64          `json:"seq"`
	Time    time.Time       `json:"time"`
	Job     int64           `json:"job"`
	Kind    journal.Kind    `json:"kind"`
	Payload journal.Payload `json:"payload"`
	Stdout  string          `json:"stdout,omitempty"`
	Stderr  string          `json:"stderr,omitempty"`
	Hash    string          `json:"hash"`
}

func eventJSON(e journal.Event) eventForm {
	form := eventForm{Seq: e.Seq, Time: e.Time.UTC(), Job: e.Job, Kind: e.Kind(), Payload: e.Payload, Hash: e.Hash.String()}
	if done, ok := e.Payload.(journal.Done); ok {
		form.Stdout, form.Stderr = string(done.Stdout.Kept), string(done.Stderr.Kept)
	}
	return form
}

// kindsFlag is a flag.Value for a list of kinds.
type kindsFlag []journal.Kind

// String implements flag.Value.
func (f *kindsFlag) String() string { return "" }

// Set implements flag.Value.
func (f *kindsFlag) Set(text string) error {
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(kindNames(), name) {
			return fmt.Errorf("%q is not allowed; allowed are: %s", name, strings.Join(kindNames(), ", "))
		}
		*f = append(*f, journal.Kind(name))
	}
	return nil
}

// kindNames lists the kinds in the order in which they are documented.
func kindNames() []string {
	var names []string
	for _, kind := range []journal.Kind{
		journal.KindAccepted, journal.KindIgnored, journal.KindReleased, journal.KindRunning, journal.KindStarted,
		journal.KindSignal, journal.KindDone, journal.KindConflict,
		journal.KindOpened, journal.KindClosed, journal.KindPaused, journal.KindContinued,
		journal.KindTargetAdded, journal.KindTargetRemoved, journal.KindConcurrencySet,
	} {
		names = append(names, string(kind))
	}
	return names
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/history"
	"jobd/journal"
	jobnet "jobd/net"
)

func (p *program) journalLog() *ffcli.Command {
	var (
		q      history.Query
		kinds  kindsFlag
		span   *window
		follow bool
	)
	c := p.journalCommand("log", "", "the events, one a line", func(ctx context.Context, j *journals, _ []string) error {
		q.Kinds, q.Since, q.Until = kinds, span.since.at, span.until.at
		if follow {
			return p.followEvents(ctx, j, q)
		}
		none := true
		err := p.printEvents(ctx, j, q, func(source, uint64) { none = false })
		if err == nil && none && !p.json() {
			err = p.sayNone("no events")
		}
		return err
	})
	span = p.windowFlags(c)
	checkFirst(c, func([]string) error { return countFrom0("journal log", q.Last) })
	c.FlagSet.Var(idFlag{&q.Job}, "job", "only events of this job")
	c.FlagSet.StringVar(&q.Target, "target", "", "only events of this target and its jobs")
	c.FlagSet.Var(&kinds, "kind", "only events of these kinds: "+strings.Join(kindNames(), ","))
	c.FlagSet.Func("result", "only ends with this result: ok or fail", func(text string) error {
		if text != "ok" && text != "fail" {
			return fmt.Errorf("%q is not allowed; allowed are ok and fail", text)
		}
		q.Result = text
		return nil
	})
	c.FlagSet.StringVar(&q.AskedBy, "by", "", "only what somebody asked for whose address or name has this in it")
	c.FlagSet.IntVar(&q.Last, "n", 0, "only the newest N of them")
	c.FlagSet.BoolVar(&follow, "follow", false, "go on with the events to come, until interrupted")
	c.FlagSet.BoolVar(&follow, "f", false, "the same as --follow")
	return c
}

// countFrom0 refuses a -n that counts nothing.
func countFrom0(name string, n int) error {
	if n < 0 {
		return wrongUsage("%s: -n %d is not allowed; allowed are numbers from 0 on", name, n)
	}
	return nil
}

// printEvents prints the selected events; seen is told which.
func (p *program) printEvents(ctx context.Context, j *journals, q history.Query, seen func(s source, seq uint64)) error {
	return p.buffered(func() error {
		printer := p.eventPrinter(j)
		for e, err := range j.events(ctx, q) {
			if err != nil {
				return err
			}
			if err := printer.print(e.source, e.item); err != nil {
				return err
			}
			seen(e.source, e.item.Seq)
		}
		return nil
	})
}

// eventPrinter prints events, one a line.
type eventPrinter struct {
	*program
	width  int // of the workers' names; 0: they are not printed
	clocks clocks
}

func (p *program) eventPrinter(j *journals) *eventPrinter {
	printer := &eventPrinter{program: p}
	for _, s := range j.sources {
		printer.width = max(printer.width, widthOf(clean(s.worker())))
	}
	return printer
}

func (p *eventPrinter) print(s source, e journal.Event) error {
	if p.json() {
		return p.printJSON(eventJSON(s.worker(), e))
	}
	about := "worker"
	if e.Job != 0 {
		about = fmt.Sprintf("job %d", e.Job)
	}
	worker := ""
	if p.width > 0 {
		name := clean(s.worker())
		worker = " " + name + strings.Repeat(" ", p.width-widthOf(name))
	}
	text := fmt.Sprintf("%s%s %8d  %-12s %-15s %s", p.clocks.of(p.program, e.Time), worker, e.Seq, about, e.Kind(), describe(e.Payload))
	_, err := fmt.Fprintln(p.out, p.paint(strings.TrimRight(text, " "), toneOf(e.Payload)))
	return err
}

// eventForm is an event as JSON. A job's output is there if it was read: as text, or, where it is
// none, as base64.
type eventForm struct {
	Worker    string          `json:"worker,omitempty"`
	Seq       uint64          `json:"seq"`
	Time      time.Time       `json:"time"`
	Job       jobnet.Whole    `json:"job"`
	Kind      journal.Kind    `json:"kind"`
	Payload   journal.Payload `json:"payload"`
	Stdout    string          `json:"stdout,omitempty"`
	StdoutRaw []byte          `json:"stdout_base64,omitempty"`
	Stderr    string          `json:"stderr,omitempty"`
	StderrRaw []byte          `json:"stderr_base64,omitempty"`
	Hash      string          `json:"hash"`
}

func eventJSON(worker string, e journal.Event) eventForm {
	form := eventForm{Worker: worker, Seq: e.Seq, Time: e.Time.UTC(), Job: jobnet.Whole(e.Job), Kind: e.Kind(), Payload: e.Payload, Hash: e.Hash.String()}
	if done, ok := e.Payload.(journal.Done); ok {
		form.Stdout, form.StdoutRaw = textOrBytes(done.Stdout.Kept)
		form.Stderr, form.StderrRaw = textOrBytes(done.Stderr.Kept)
	}
	return form
}

func textOrBytes(kept []byte) (string, []byte) {
	if utf8.Valid(kept) {
		return string(kept), nil
	}
	return "", kept
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
	for _, kind := range journal.Kinds() {
		names = append(names, string(kind))
	}
	return names
}

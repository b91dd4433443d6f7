package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/journal"
	jobnet "jobd/net"
)

func (p *program) journalLog() *cmd {
	var (
		q      history.Query
		kinds  []string
		follow bool
	)
	c := p.journalCommand("log", "", "the events, one a line", func(ctx context.Context, j *operator.Journals, _ []string) error {
		for _, kind := range kinds {
			q.Kinds = append(q.Kinds, journal.Kind(kind))
		}
		if follow {
			return p.followEvents(ctx, j, q)
		}
		none := true
		err := p.printEvents(ctx, j, q, func(operator.Source, uint64) { none = false })
		if err == nil && none && !p.json() {
			p.sayNone("no events")
		}
		return err
	})
	p.windowFlags(c, &q.Since, &q.Until)
	c.FlagSet.Func("job", "only events of this job", func(text string) error {
		id, err := parseID(text)
		if err != nil {
			return fmt.Errorf("%q is not allowed; allowed: %w", text, err)
		}
		q.Job = id
		return nil
	})
	c.FlagSet.StringVar(&q.Target, "target", "", "only events of this target and its jobs")
	c.FlagSet.Var(oneOf{list: &kinds, allowed: kindNames()}, "kind", "only events of these kinds: "+strings.Join(kindNames(), ","))
	c.FlagSet.Var(oneOf{value: &q.Result, allowed: []string{"ok", "fail"}}, "result", "only events with result ok or fail")
	c.FlagSet.StringVar(&q.AskedBy, "by", "", "only what a client of this name or address asked for; a word of it is enough")
	c.value("n", "only the newest N of them", conf.Int(&q.Last, 0, math.MaxInt))
	c.FlagSet.BoolVar(&follow, "follow", false, "go on with new events, until interrupted")
	c.FlagSet.BoolVar(&follow, "f", false, "the same as --follow")
	return c
}

// printEvents prints the selected events; seen is told which.
func (p *program) printEvents(ctx context.Context, j *operator.Journals, q history.Query, seen func(s operator.Source, seq uint64)) error {
	return p.buffered(func() error {
		printer := p.eventPrinter(j)
		for e, err := range j.Events(ctx, q) {
			if err != nil {
				return err
			}
			printer.print(e.Source, e.Item)
			seen(e.Source, e.Item.Seq)
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

func (p *program) eventPrinter(j *operator.Journals) *eventPrinter {
	printer := &eventPrinter{program: p}
	for _, s := range j.Sources {
		printer.width = max(printer.width, screen.Width(clean(s.Worker())))
	}
	return printer
}

func (p *eventPrinter) print(s operator.Source, e journal.Event) {
	if p.json() {
		p.printJSON(eventJSON(s.Worker(), e))
		return
	}
	about := "worker"
	if e.Job != 0 {
		about = fmt.Sprintf("job %d", e.Job)
	}
	worker := ""
	if p.width > 0 {
		name := clean(s.Worker())
		worker = " " + name + strings.Repeat(" ", p.width-screen.Width(name))
	}
	text := fmt.Sprintf("%s%s %8d  %-12s %-15s %s", p.clocks.of(p.program, e.Time), worker, e.Seq, about, e.Kind(), operator.Describe(e.Payload))
	p.say("%s\n", p.paint(strings.TrimRight(text, " "), toneOf(e.Payload)))
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

// kindNames lists the kinds in the order in which they are documented.
func kindNames() []string {
	var names []string
	for _, kind := range journal.Kinds() {
		names = append(names, string(kind))
	}
	return names
}

// followEvents prints what there is, merged by time, and then what is appended, as it comes, until
// ctx ends. A connection that is lost meanwhile is made again.
func (p *program) followEvents(ctx context.Context, j *operator.Journals, q history.Query) error {
	seen := make(map[operator.Source]uint64)
	err := j.Each(func(s operator.Source) error {
		anchor, err := s.Anchor(ctx)
		seen[s] = anchor.Seq
		return err
	})
	if err == nil {
		err = p.printEvents(ctx, j, q, func(s operator.Source, seq uint64) { seen[s] = max(seen[s], seq) })
	}
	if err == nil {
		q.Last, q.Follow = 0, true
		err = p.printComing(ctx, j, q, seen)
	}
	if exit.Interrupted(ctx) {
		return nil // as it should be
	}
	return err
}

// coming is an event as it comes, or why none come any more.
type coming struct {
	from operator.From[journal.Event]
	err  error
}

// printComing prints the events behind those that were seen, from all sources at once.
func (p *program) printComing(ctx context.Context, j *operator.Journals, q history.Query, seen map[operator.Source]uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	events := make(chan coming)
	give := func(c coming) bool {
		select {
		case events <- c:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for s, after := range seen {
		q := q
		q.After = after
		group.Go(func() {
			err := operator.Follow(ctx, s, q, p.note, func(e journal.Event) bool {
				return give(coming{from: operator.From[journal.Event]{Source: s, Item: e}})
			})
			give(coming{operator.From[journal.Event]{Source: s}, err})
		})
	}
	printer := p.eventPrinter(j)
	for left := len(seen); left > 0; {
		select {
		case e := <-events:
			if e.err != nil {
				left--
				if err := j.Fail(e.from.Source, e.err); err != nil {
					return err
				}
				fmt.Fprintf(p.err, "jobctl: %v; the others go on\n", j.Failed[len(j.Failed)-1])
				continue
			}
			printer.print(e.from.Source, e.from.Item)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *program) journalExport() *cmd {
	q := history.Query{Output: true}
	format := "jsonl"
	c := p.journalCommand("export", "", "all events with all that is known of them, for other tools", func(ctx context.Context, j *operator.Journals, _ []string) error {
		return p.buffered(func() error { return p.export(j.Events(ctx, q), format) })
	})
	p.windowFlags(c, &q.Since, &q.Until)
	c.FlagSet.Var(oneOf{value: &format, allowed: []string{"jsonl", "csv"}}, "format", "jsonl or csv")
	return c
}

func (p *program) export(events iter.Seq2[operator.From[journal.Event], error], format string) error {
	write, flush := p.exporter(format)
	for e, err := range events {
		if err != nil {
			return errors.Join(flush(), err)
		}
		if err := write(e); err != nil {
			return err
		}
	}
	return flush()
}

// exporter writes events in a format.
func (p *program) exporter(format string) (write func(operator.From[journal.Event]) error, flush func() error) {
	if format == "jsonl" {
		write = func(e operator.From[journal.Event]) error {
			p.printJSON(eventJSON(e.Source.Worker(), e.Item))
			return nil
		}
		return write, func() error { return nil }
	}
	w := csv.NewWriter(p.out)
	_ = w.Write([]string{"worker", "seq", "time", "job", "kind", "payload", "stdout", "stderr", "hash"}) // it remembers an error
	write = func(e operator.From[journal.Event]) error {
		payload, err := json.Marshal(e.Item.Payload)
		if err != nil {
			return err
		}
		var stdout, stderr string
		if done, ok := e.Item.Payload.(journal.Done); ok {
			stdout, stderr = string(done.Stdout.Kept), string(done.Stderr.Kept)
		}
		return w.Write([]string{
			harmless(e.Source.Worker()), strconv.FormatUint(e.Item.Seq, 10), e.Item.Time.UTC().Format(time.RFC3339Nano),
			strconv.FormatInt(e.Item.Job, 10), string(e.Item.Kind()), harmless(string(payload)), harmless(stdout), harmless(stderr), e.Item.Hash.String(),
		})
	}
	return write, func() error {
		w.Flush()
		return w.Error()
	}
}

// formula begins what a spreadsheet takes for a formula, also behind blanks; the wide forms too.
const formula = "=+-@\uff1d\uff0b\uff0d\uff20"

// plainNumber is what a spreadsheet takes for a number. A line's end behind it is as harmless.
var plainNumber = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\n?$`)

// harmless is text for a cell that no spreadsheet runs: an apostrophe before it makes it text.
func harmless(text string) string {
	begins := strings.TrimLeftFunc(text, func(r rune) bool { return unicode.IsSpace(r) || screen.Invisible(r) })
	switch {
	case text == "" || plainNumber.MatchString(text):
		return text
	case strings.ContainsRune("\t\r\n", rune(text[0])) || begins != "" && strings.IndexAny(begins, formula) == 0:
		return "'" + text
	}
	return text
}

func (p *program) journalConflicts() *cmd {
	q := history.Query{Kinds: []journal.Kind{journal.KindConflict}}
	c := p.journalCommand("conflicts", "", "rows that somebody else changed or deleted while the worker had them", func(ctx context.Context, j *operator.Journals, _ []string) error {
		t := p.table("no conflicts", "WORKER|WANTED|FOUND|REASON",
			when(j.Named(), "WORKER"), "TIME", "SEQ", "JOB", "WANTED", "FOUND", "OWNER", "REASON")
		return tabulate(t, j.Events(ctx, q), t.addConflict)
	})
	p.windowFlags(c, &q.Since, &q.Until)
	return c
}

func (t *table) addConflict(e operator.From[journal.Event]) {
	conflict, _ := e.Item.Payload.(journal.Conflict)
	owner := ""
	if conflict.Found != nil {
		owner = conflict.Found.Owner
	}
	worker := e.Source.Worker()
	t.put(eventJSON(worker, e.Item), plain, worker, t.clock(e.Item.Time), e.Item.Seq, e.Item.Job, conflict.Wanted, operator.FoundText(conflict), owner, conflict.Reason)
}

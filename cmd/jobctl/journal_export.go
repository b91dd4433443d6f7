package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/history"
	"jobd/cmd/internal/screen"
	"jobd/journal"
)

func (p *program) journalExport() *ffcli.Command {
	var span *window
	format := formatFlag("jsonl")
	c := p.journalCommand("export", "", "all events with all that is known of them, for other tools", func(ctx context.Context, j *journals, _ []string) error {
		q := history.Query{Output: true, Since: span.since.at, Until: span.until.at}
		progress := p.progress("events exported").of(p.size(ctx, j, q))
		return p.buffered(func() error { return p.export(j.events(ctx, q), string(format), progress) })
	})
	span = p.windowFlags(c)
	c.FlagSet.Var(&format, "format", "jsonl or csv")
	return c
}

func (p *program) export(events iter.Seq2[from[journal.Event], error], format string, progress *progress) error {
	write, flush := p.exporter(format)
	count := uint64(0)
	defer progress.end()
	for e, err := range events {
		if err != nil {
			return errors.Join(flush(), err)
		}
		if err := write(e); err != nil {
			return err
		}
		count++
		progress.at(count)
	}
	return flush()
}

// formatFlag is a flag.Value for an export's format.
type formatFlag string

// String implements flag.Value.
func (f *formatFlag) String() string { return string(*f) }

// Set implements flag.Value.
func (f *formatFlag) Set(text string) error {
	if text != "jsonl" && text != "csv" {
		return fmt.Errorf("%q is not allowed; allowed are: jsonl, csv", text)
	}
	*f = formatFlag(text)
	return nil
}

// exporter writes events in a format.
func (p *program) exporter(format string) (write func(from[journal.Event]) error, flush func() error) {
	if format == "jsonl" {
		write = func(e from[journal.Event]) error { return p.printJSON(eventJSON(e.source.worker(), e.item)) }
		return write, func() error { return nil }
	}
	w := csv.NewWriter(p.out)
	headed := false
	head := func() error {
		if headed {
			return nil
		}
		headed = true
		return w.Write([]string{"worker", "seq", "time", "job", "kind", "payload", "stdout", "stderr", "hash"})
	}
	write = func(e from[journal.Event]) error {
		payload, err := json.Marshal(e.item.Payload)
		if err != nil {
			return err
		}
		var stdout, stderr string
		if done, ok := e.item.Payload.(journal.Done); ok {
			stdout, stderr = string(done.Stdout.Kept), string(done.Stderr.Kept)
		}
		return errors.Join(head(), w.Write([]string{
			harmless(e.source.worker()), strconv.FormatUint(e.item.Seq, 10), e.item.Time.UTC().Format(time.RFC3339Nano),
			strconv.FormatInt(e.item.Job, 10), string(e.item.Kind()), harmless(string(payload)), harmless(stdout), harmless(stderr), e.item.Hash.String(),
		}))
	}
	return write, func() error {
		err := head()
		w.Flush()
		return errors.Join(err, w.Error())
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

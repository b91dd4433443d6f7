package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/journal"
)

// table is what jobctl prints item by item: in columns, with lines on a terminal,
//
//	TARGET | CONCURRENCY
//	-------+------------
//	a      | 10
//
// or as JSON, an object a line. Elsewhere it is for other programs: every line is complete, so cells of
// one line are repeated beside those of many, and an empty cell is a hyphen. A chunk of rows is held, and
// decides how wide the columns are.
type table struct {
	*program
	head    []string // a column without a head is left out
	none    string   // said on a terminal in place of a table without rows; "": the head alone is printed
	elastic string   // the head of the column that is cut where the terminal is too narrow, or several, with | between them; one behind a - is left out before

	rows   []row // that are not printed yet
	count  uint64
	widths []int // of the columns, as the rows so far need them; negative: left out
	begun  bool  // the head is printed
	blanks string
}

type row struct {
	tone  tone
	cells []cell
}

// cell is the lines of a cell. In one row, cells have one line or all the same number.
type cell []string

// chunk is how many rows decide how wide the columns are.
const chunk = 1000

// table begins a table.
func (p *program) table(none, elastic string, head ...string) *table {
	return &table{program: p, none: none, elastic: elastic, head: head}
}

// when is the head of a column that there is only where something is so.
func when(is bool, head string) string {
	if is {
		return head
	}
	return ""
}

// lines makes a cell of several lines, those that are not empty.
func lines(texts ...string) (c cell) {
	for _, text := range texts {
		if text != "" {
			c = append(c, clean(text))
		}
	}
	if len(c) == 0 {
		return cell{""}
	}
	return c
}

// add adds an item: cells, or what is printed as fmt does. Its JSON has the heads for keys.
func (t *table) add(values ...any) { t.put(nil, plain, values...) }

// put adds an item with a JSON form of its own.
func (t *table) put(form any, tone tone, values ...any) {
	t.count++
	if t.json() {
		if form == nil {
			keys := map[string]any{}
			for i, head := range t.head {
				keys[strings.ToLower(head)] = values[i]
			}
			form = keys
		}
		t.printJSON(form)
		return
	}
	texts, cells := make([]string, 0, len(values)), make([]cell, 0, len(values))
	for i, value := range values {
		if t.head[i] == "" {
			continue
		}
		lines, is := value.(cell)
		if !is {
			texts = append(texts, clean(textOf(value)))
			lines = texts[len(texts)-1:]
		}
		cells = append(cells, lines)
	}
	if t.rows = append(t.rows, row{tone, cells}); len(t.rows) >= chunk {
		t.flush()
	}
}

// end prints what is left, and gives back why there is no more. What was found before an error is printed
// as well, but that nothing was found is said only of a table that is complete.
func (t *table) end(err error) error {
	switch {
	case t.json() || err != nil && t.count == 0:
	case t.none != "" && t.count == 0 && t.terminal:
		t.say("%s\n", t.none)
	default:
		t.flush()
	}
	return err
}

// print is end where nothing went wrong.
func (t *table) print() { _ = t.end(nil) }

// tabulate prints the items of a sequence, up to its first error.
func tabulate[T any](t *table, items iter.Seq2[T, error], add func(T)) error {
	for item, err := range items {
		if err != nil {
			return t.end(err)
		}
		add(item)
	}
	return t.end(nil)
}

// say prints a text. What can't be written ends the run, which tells it then.
func (p *program) say(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

// sayNone tells a person that there is nothing to print; a program sees it.
func (p *program) sayNone(format string, args ...any) {
	if p.terminal {
		p.say(format+"\n", args...)
	}
}

// nothing ends a command that changes jobs and has found none: it says so, or that no worker serves the target ("":
// of any) that they were to be of.
func (p *program) nothing(ctx context.Context, target, text string) error {
	err := p.unserved(ctx, target)
	if err == nil && !p.json() {
		p.note(errors.New(text))
	}
	return err
}

// flush prints the rows so far, and the head before the first ones.
func (t *table) flush() {
	head := slices.DeleteFunc(slices.Clone(t.head), func(head string) bool { return head == "" })
	if !t.begun {
		t.widths = make([]int, len(head))
		t.widen(head)
	}
	for _, row := range t.rows {
		for n := range row.height() {
			t.widen(row.line(n, t.complete()))
		}
	}
	t.fit(head)
	var text bytes.Buffer
	if !t.begun {
		t.write(&text, head, plain)
		if t.terminal {
			t.dashes(&text)
		}
		t.begun = true
	}
	for _, row := range t.rows {
		for n := range row.height() {
			t.write(&text, row.line(n, t.complete()), row.tone)
		}
	}
	t.rows = t.rows[:0]
	_, _ = t.out.Write(text.Bytes())
}

// complete says that every line is to have a text in every column: it is for a program.
func (t *table) complete() bool { return !t.terminal }

func (t *table) widen(texts []string) {
	for i, text := range texts {
		if t.widths[i] >= 0 {
			t.widths[i] = max(t.widths[i], screen.Width(text))
		}
	}
}

// between is what stands between two columns.
func (t *table) between() string {
	if t.terminal {
		return " | "
	}
	return "  "
}

// write writes one line.
func (t *table) write(to *bytes.Buffer, texts []string, tone tone) {
	var line []byte
	for i, text := range texts {
		if t.widths[i] < 0 {
			continue
		}
		if line != nil {
			line = append(line, t.between()...)
		}
		width := screen.Width(text)
		if width > t.widths[i] {
			text = screen.Cut(text, t.widths[i])
			width = screen.Width(text)
		}
		line = append(append(line, text...), t.spaces(t.widths[i]-width)...)
	}
	to.WriteString(t.paint(string(bytes.TrimRight(line, " ")), tone))
	to.WriteByte('\n')
}

func (t *table) dashes(to *bytes.Buffer) {
	var dashes []string
	for _, width := range t.widths {
		if width >= 0 {
			dashes = append(dashes, strings.Repeat("-", width))
		}
	}
	fmt.Fprintln(to, strings.Join(dashes, "-+-"))
}

// spaces is so many blanks, kept for the next time.
func (t *table) spaces(n int) string {
	if n > len(t.blanks) {
		t.blanks = strings.Repeat(" ", 2*n)
	}
	return t.blanks[:n]
}

// height is how many lines a row has.
func (r row) height() int {
	height := 1
	for _, cell := range r.cells {
		height = max(height, len(cell))
	}
	return height
}

// line is the n-th line of a row. A complete one repeats what has one line only, and has no empty
// text.
func (r row) line(n int, complete bool) []string {
	texts := make([]string, len(r.cells))
	for i, cell := range r.cells {
		switch {
		case n < len(cell):
			texts[i] = cell[n]
		case complete && len(cell) == 1:
			texts[i] = cell[0]
		}
		if complete && texts[i] == "" {
			texts[i] = "-"
		}
	}
	return texts
}

// textOf is what fmt prints of a value, faster for what long tables are made of.
func textOf(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprint(value)
}

// leastElastic is how narrow a column may be made, the … included.
const leastElastic = 8

// columns is how wide the terminal is; 0: there is none, or nobody knows.
func (s surroundings) columns() int {
	if !s.terminal || s.width == nil {
		return 0
	}
	return s.width()
}

// fit leaves out columns that matter less, and makes the elastic ones narrower, until a line fits into the
// terminal.
func (t *table) fit(head []string) {
	columns := t.columns()
	if columns == 0 {
		return
	}
	over := -len(t.between()) - columns
	for _, width := range t.widths {
		if width >= 0 {
			over += width + len(t.between())
		}
	}
	elastic := strings.Split(t.elastic, "|")
	for _, name := range elastic {
		spare, is := strings.CutPrefix(name, "-")
		if i := slices.Index(head, spare); is && i >= 0 && over > 0 && !t.begun && !t.config.precise {
			over -= t.widths[i] + len(t.between())
			t.widths[i] = -1
		}
	}
	screen.Narrow(t.widths, over, func(column int) int {
		if slices.Contains(elastic, head[column]) {
			return leastElastic
		}
		return -1
	})
}

// tone is a line's colour, by what the line means.
type tone int

// The tones. A plain line has no colour.
const (
	plain tone = iota
	good
	bad
	odd   // worth a look: conflicts, releases, signals
	faint // about the worker itself
)

// coloured reports whether stdout takes colours: a terminal that says what it is, and nobody who
// wants none.
func (s surroundings) coloured() bool {
	if !s.terminal {
		return false
	}
	term := s.variable("TERM")
	return term != "" && term != "dumb" && s.variable("NO_COLOR") == ""
}

// variable is an environment variable; "" where there is none.
func (s surroundings) variable(name string) (value string) {
	for _, variable := range s.environ {
		if text, found := strings.CutPrefix(variable, name+"="); found {
			value = text
		}
	}
	return value
}

// paint gives text its tone, where stdout takes colours.
func (p *program) paint(text string, t tone) string {
	if t == plain || !p.coloured() {
		return text
	}
	sequence := map[tone]string{good: "\x1b[32m", bad: "\x1b[31m", odd: "\x1b[33m", faint: "\x1b[2m"}[t]
	return p.ours(sequence) + text + p.ours("\x1b[m")
}

// toneOf is the tone of an event.
func toneOf(payload journal.Payload) tone {
	switch e := payload.(type) {
	case journal.Done:
		switch {
		case e.Result == "ok":
			return good
		case e.Again != nil && e.Again.Why == journal.AgainRetry: // not its last word
			return odd
		}
		return bad
	case journal.Conflict, journal.SetAside, journal.Released, journal.Ignored, journal.Retried, journal.Signal, journal.Cancelled,
		journal.Planned, journal.Replanned:
		return odd
	case journal.Accepted, journal.Running, journal.Started:
		return plain
	}
	return faint
}

// toneOfStatus is the tone of a job's state.
func toneOfStatus(status journal.Status, result string) tone {
	switch {
	case status == journal.StatusDone && result == "ok":
		return good
	case status == journal.StatusDone:
		return bad
	case status == journal.StatusConflict, status == journal.StatusReleased, status == journal.StatusIgnored, status == journal.StatusRetried,
		status == journal.StatusPlanned:
		return odd
	}
	return plain
}

// times is by what times are told: briefly on a terminal, unless precision is wanted.
func (p *program) times() operator.Clock {
	return operator.Clock{Now: p.now(), Location: p.location, Brief: p.brief()}
}

// clock prints a moment as a person wants it, or in full where programs read it.
func (p *program) clock(at time.Time) string { return p.times().Moment(at) }

// seconds prints a moment of the table.
func (p *program) seconds(unix int64) string { return p.times().Seconds(unix) }

// stamp prints a moment, to the microsecond as the journal has it.
func (p *program) stamp(at time.Time) string { return p.times().Stamp(at) }

// clocks prints moments of one line after the other, oldest first, so that they stand below each
// other: from the first with a date on, which comes before those of today, all are as wide.
type clocks struct{ width int }

func (c *clocks) of(p *program, at time.Time) string {
	text := p.clock(at)
	c.width = max(c.width, len(text))
	return fmt.Sprintf("%*s", c.width, text)
}

// brief tells whether times and tables are made for a person: on a terminal, unless precision is
// wanted.
func (p *program) brief() bool { return p.terminal && !p.config.precise }

// watchInterval is how often a page is made anew.
const watchInterval = 2 * time.Second

// watched prints a page once, or, where it is watched, again and again until somebody ends the run:
// in place on a terminal, elsewhere one behind the other. A daemon that can't be asked any more,
// because it starts again, say, is asked again; what is shown meanwhile says so.
func (p *program) watched(ctx context.Context, watch bool, print func(context.Context, *operator.Daemon) error) error {
	if !watch {
		return print(ctx, p.daemon())
	}
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	for first := true; ; first = false {
		text, err := p.printed(func() error { return print(ctx, p.daemon()) })
		switch {
		case exit.Interrupted(ctx):
			return nil // as it should be
		case ctx.Err() != nil || first && err != nil && text == "":
			return err
		case err != nil && text == "":
			text = "jobctl: " + clean(err.Error()) + "; trying again\n"
		}
		p.showPage(text, first)
		select {
		case <-ticks.C:
		case <-ctx.Done():
		}
	}
}

// printed is what a function prints.
func (p *program) printed(print func() error) (string, error) {
	var page bytes.Buffer
	out := p.out
	p.out = &page
	defer func() { p.out = out }()
	err := print()
	return page.String(), err
}

// showPage shows one page.
func (p *program) showPage(text string, first bool) {
	switch {
	case p.json():
	case p.terminal:
		text = p.ours("\x1b[H\x1b[2J") + p.clock(p.now()) + "\n\n" + text
	default:
		text = when(!first, "\n") + p.clock(p.now()) + "\n" + text
	}
	p.say("%s", text)
}

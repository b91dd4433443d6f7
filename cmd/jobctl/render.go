package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/journal"
)

// table is what jobctl prints in columns, with lines on a terminal:
//
//	TARGET | CONCURRENCY
//	-------+------------
//	a      | 10
//
// Elsewhere it is for other programs: every line is complete, so cells of one line are repeated
// beside those of many, and an empty cell is a hyphen. A table is made row by row and printed as a
// whole, or, where it may be of any length, begun by program.stream, which holds a chunk of it.
type table struct {
	head []string
	none string // said on a terminal in place of a table without rows; "" prints the head alone
	rows []row  // that are not printed yet

	// elastic is the head of the column that is cut where the terminal is too narrow, or the heads
	// of several, with a | between them.
	elastic string

	to     *program
	widths []int // of the columns, as the rows so far need them
	begun  bool  // the head is printed
	blanks string
}

type row struct {
	tone  tone
	cells []cell
}

// cell is the lines of a cell. In one row, cells have one line or all the same number.
type cell []string

// chunk is how many rows of a stream decide how wide its columns are.
const chunk = 1000

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

// add adds a row to a table that is printed as a whole: cells, or what is printed as fmt does.
func (t *table) add(values ...any) { t.rows = append(t.rows, rowOf(plain, values)) }

func rowOf(tone tone, values []any) row {
	texts, cells := make([]string, len(values)), make([]cell, len(values))
	for i, value := range values {
		if lines, is := value.(cell); is {
			cells[i] = lines
			continue
		}
		texts[i] = clean(textOf(value))
		cells[i] = texts[i : i+1]
	}
	return row{tone, cells}
}

// drop leaves a column out of a table that is printed as a whole.
func (t *table) drop(head string) {
	i := slices.Index(t.head, head)
	t.head = slices.Delete(t.head, i, i+1)
	for n := range t.rows {
		t.rows[n].cells = slices.Delete(t.rows[n].cells, i, i+1)
	}
}

// print prints a whole table.
func (p *program) print(t table) {
	t.to = p
	_ = t.end() // what can't be written is told at the end of the run
}

// stream begins a table of any length. What it prints looks like a table that is printed as a
// whole, but for columns that later rows need wider.
func (p *program) stream(head ...string) *table { return &table{to: p, head: head} }

// put adds a row to a stream.
func (t *table) put(tone tone, values ...any) error {
	if t.rows = append(t.rows, rowOf(tone, values)); len(t.rows) >= chunk {
		return t.flush()
	}
	return nil
}

// end prints what is left of a table, or that there is nothing.
func (t *table) end() error {
	if t.none != "" && !t.begun && len(t.rows) == 0 && t.to.terminal {
		return t.to.sayNone(t.none)
	}
	return t.flush()
}

// sayNone tells a person that there is nothing to print; a program sees it.
func (p *program) sayNone(text string) error {
	if !p.terminal {
		return nil
	}
	_, err := fmt.Fprintln(p.out, text)
	return err
}

// flush prints the rows so far, and the head before the first ones.
func (t *table) flush() error {
	if !t.begun {
		t.widths = make([]int, len(t.head))
		t.widen(t.head)
	}
	for _, row := range t.rows {
		for n := range row.height() {
			t.widen(row.line(n, t.complete()))
		}
	}
	t.fit()
	var text bytes.Buffer
	if !t.begun {
		t.write(&text, t.head, plain)
		if t.to.terminal {
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
	_, err := t.to.out.Write(text.Bytes())
	return err
}

// report is how commands print what they find, item by item: as JSON, one a line, or as
// rows of a table, with the worker in front where there are several.
type report struct {
	*program
	table   *table
	workers bool // rows begin with the worker's name
	count   uint64
}

// cutAt names the columns of a report that a narrow terminal cuts.
func (r *report) cutAt(heads string) *report {
	r.table.elastic = heads
	return r
}

// report begins a report; none is said on a terminal where nothing is found.
func (p *program) report(workers bool, none string, head ...string) *report {
	if workers {
		head = append([]string{"WORKER"}, head...)
	}
	r := &report{program: p, table: p.stream(head...), workers: workers}
	r.table.none = none
	return r
}

// add prints an item of a worker: its JSON form, or the values of its row.
func (r *report) add(worker string, form any, tone tone, values ...any) error {
	r.count++
	if r.json() {
		return r.printJSON(form)
	}
	if r.workers {
		values = append([]any{worker}, values...)
	}
	return r.table.put(tone, values...)
}

// end prints what is left; err is why there is no more, or nil. What was found before an error is
// printed as well, but that nothing was found is said only of a report that is complete.
func (r *report) end(err error) error {
	if r.json() || err != nil && r.count == 0 {
		return err
	}
	return errors.Join(r.table.end(), err)
}

// complete says that every line is to have a text in every column: it is for a program.
func (t *table) complete() bool { return !t.to.terminal }

func (t *table) widen(texts []string) {
	for i, text := range texts {
		t.widths[i] = max(t.widths[i], screen.Width(text))
	}
}

// between is what stands between two columns.
func (t *table) between() string {
	if t.to.terminal {
		return " | "
	}
	return "  "
}

// write writes one line.
func (t *table) write(to *bytes.Buffer, texts []string, tone tone) {
	var line []byte
	for i, text := range texts {
		if i > 0 {
			line = append(line, t.between()...)
		}
		width := screen.Width(text)
		if width > t.widths[i] {
			text = screen.Cut(text, t.widths[i])
			width = screen.Width(text)
		}
		line = append(append(line, text...), t.spaces(t.widths[i]-width)...)
	}
	to.WriteString(t.to.paint(string(bytes.TrimRight(line, " ")), tone))
	to.WriteByte('\n')
}

func (t *table) dashes(to *bytes.Buffer) {
	dashes := make([]string, len(t.widths))
	for i, width := range t.widths {
		dashes[i] = strings.Repeat("-", width)
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

// fit makes the elastic columns narrower until a line fits into the terminal.
func (t *table) fit() {
	columns := t.to.columns()
	if columns == 0 {
		return
	}
	over := -columns
	for i, width := range t.widths {
		if over += width; i > 0 {
			over += len(t.between())
		}
	}
	screen.Narrow(t.widths, over, func(column int) int {
		if t.isElastic(column) {
			return leastElastic
		}
		return -1
	})
}

// isElastic tells whether a column may be cut.
func (t *table) isElastic(column int) bool {
	return t.elastic != "" && slices.Contains(strings.Split(t.elastic, "|"), t.head[column])
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
	refused := slices.ContainsFunc(s.environ, func(v string) bool {
		return strings.HasPrefix(v, "NO_COLOR=") && v != "NO_COLOR="
	})
	return term != "" && term != "dumb" && !refused
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
	sequence := ""
	switch t {
	case good:
		sequence = "\x1b[32m"
	case bad:
		sequence = "\x1b[31m"
	case odd:
		sequence = "\x1b[33m"
	case faint:
		sequence = "\x1b[2m"
	}
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
		if err := p.showPage(text, first); err != nil {
			return err
		}
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

// sayBelow says in a page that is watched, and has something in it, what would be told on stderr.
func (p *program) sayBelow(err error) {
	if page, is := p.out.(*bytes.Buffer); !is || page.Len() == 0 || err == nil {
		return
	}
	fmt.Fprintln(p.out)
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(p.out, clean(line))
	}
}

// showPage shows one page.
func (p *program) showPage(text string, first bool) error {
	switch {
	case p.json():
	case p.terminal:
		text = p.ours("\x1b[H\x1b[2J") + p.clock(p.now()) + "\n\n" + text
	default:
		text = p.clock(p.now()) + "\n" + text
		if !first {
			text = "\n" + text
		}
	}
	_, err := fmt.Fprint(p.out, text)
	return err
}

// When progress is told: of what takes longer than progressDelay, each progressInterval.
const (
	progressDelay    = time.Second
	progressInterval = 200 * time.Millisecond
)

// progress tells on stderr how far a long run is, where that is a terminal and the run takes long
// enough.
type progress struct {
	p     *program
	what  string
	next  time.Time
	shown bool
}

func (p *program) progress(what string) *progress {
	return &progress{p: p, what: what, next: p.now().Add(progressDelay)}
}

// at shows that n were counted so far.
func (g *progress) at(n uint64) {
	if !g.p.errTerminal || g.p.variable("TERM") == "dumb" { // which takes no line back
		return
	}
	if now := g.p.now(); !now.Before(g.next) {
		fmt.Fprintf(g.p.err, "%s%s%s", g.p.ours("\r"), g.line(n), g.p.ours("\x1b[K"))
		g.next, g.shown = now.Add(progressInterval), true
	}
}

// line is what is shown, no wider than the terminal: a line that wraps can't be taken back.
func (g *progress) line(n uint64) string {
	columns := 80
	if g.p.errWidth != nil && g.p.errWidth() > 0 {
		columns = g.p.errWidth()
	}
	return screen.Cut(fmt.Sprintf("%s %s", humanize.Comma(int64(n)), g.what), columns-1)
}

// end removes what is shown.
func (g *progress) end() {
	if g.shown {
		fmt.Fprint(g.p.err, g.p.ours("\r\x1b[K"))
		g.shown = false
	}
}

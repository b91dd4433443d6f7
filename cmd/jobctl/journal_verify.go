package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/journal"
	"jobd/journal/verify"
	"jobd/net/api"
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
			progress := p.progress("events verified")
			if p.errTerminal {
				newest, err := s.Anchor(ctx)
				if err == nil { // else the audit says so
					progress.of(newest.Seq)
				}
			}
			verdict, err := s.Audit(ctx, anchors, progress.at)
			progress.end()
			if err != nil {
				return err
			}
			if !verdict.Sound {
				unsound = append(unsound, operator.Named(s.Worker(), errors.New(verdict.Error)))
			}
			return p.printVerdict(s, verdict)
		})
		return errors.Join(err, errors.Join(unsound...))
	})
	c.FlagSet.StringVar(&file, "anchor", "", "compare with the heads in this file, which journal anchor wrote earlier")
	return c
}

func (p *program) journalAnchor() *cmd {
	var file string
	c := p.journalCommand("anchor", "", "the newest event's number and hash, to be kept where nobody who can change the journal can reach", func(ctx context.Context, j *operator.Journals, _ []string) error {
		var lines strings.Builder
		err := j.Each(func(s operator.Source) error {
			anchor, err := s.Anchor(ctx)
			if err != nil || anchor.Seq == 0 {
				return err // nothing has happened yet that could be lost
			}
			if p.json() {
				return p.printJSON(struct {
					Worker string `json:"worker,omitempty"`
					history.AnchorAnswer
				}{s.Worker(), history.AnchorAnswer{Seq: anchor.Seq, Hash: anchor.Hash.String()}})
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

// printVerdict prints what a verification found, in words and, where not everything is of one kind,
// as a table of ranges.
func (p *program) printVerdict(s operator.Source, v history.Verdict) error {
	if p.json() {
		return p.printJSON(struct {
			Worker string `json:"worker,omitempty"`
			history.Verdict
		}{s.Worker(), v})
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
	if _, err := fmt.Fprintln(p.out, p.paint(text.String(), colour)); err != nil {
		return err
	}
	if len(v.Ranges) > 1 || !v.Sound && len(v.Ranges) > 0 {
		p.print(tableOf(v.Ranges))
	}
	return p.printFaults(v)
}

func (p *program) sayVerified(text *strings.Builder, v history.Verdict) {
	count := v.Events
	if v.First > 0 {
		count = v.Events - v.First + 1
	}
	fmt.Fprintf(text, "verified: %d events", count)
	if v.First > 1 {
		fmt.Fprintf(text, " from %d on, before which retention has removed what was there", v.First)
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

// sayDamaged says how much is not as it was written. An older worker tells no ranges.
func sayDamaged(v history.Verdict) string {
	events := map[verify.Verdict]uint64{}
	for _, r := range v.Ranges {
		events[r.Verdict] += r.Last - r.First + 1
	}
	var parts []string
	for _, verdict := range []verify.Verdict{verify.Missing, verify.Damaged} {
		switch n := events[verdict]; {
		case n == 1:
			parts = append(parts, fmt.Sprintf("1 event is %s", verdict))
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d events are %s", n, verdict))
		}
	}
	files := map[string]bool{}
	for _, f := range v.Faults {
		if f.File != "" && !files[f.File] {
			files[f.File] = true
			parts = append(parts, "file "+clean(f.File)+" is damaged")
		}
	}
	text := "not as it was written"
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	if len(v.Ranges) == 0 && v.Events > 0 {
		text += fmt.Sprintf("\nnothing wrong was met up to event %d", v.Events)
	}
	if v.FirstBad > 0 {
		text += fmt.Sprintf("\nfirst bad sequence number: %d", v.FirstBad)
	}
	return text + sayAnchors(v)
}

func tableOf(ranges []verify.Range) table {
	t := table{head: []string{"EVENTS", "COUNT", "VERDICT", "WHY"}, elastic: "WHY"}
	for _, r := range ranges {
		t.add(fmt.Sprintf("%d-%d", r.First, r.Last), r.Last-r.First+1, r.Verdict, r.Detail)
	}
	return t
}

// printFaults prints what is wrong besides: with files, and what contradicts events.
func (p *program) printFaults(v history.Verdict) error {
	var text strings.Builder
	for _, f := range v.Faults {
		switch {
		case f.File != "" && f.Event > 0:
			fmt.Fprintf(&text, "%s, event %d: ", clean(f.File), f.Event)
		case f.File != "":
			fmt.Fprintf(&text, "%s: ", clean(f.File))
		case f.Event > 0:
			fmt.Fprintf(&text, "event %d: ", f.Event)
		}
		text.WriteString(clean(f.Detail) + "\n")
	}
	if v.More > 0 {
		fmt.Fprintf(&text, "%d more\n", v.More)
	}
	_, err := fmt.Fprint(p.out, text.String())
	return err
}

// When progress is told: of what takes longer than progressDelay, each progressInterval.
const (
	progressDelay    = time.Second
	progressInterval = 200 * time.Millisecond
)

// widestBar is how long a bar is at most.
const widestBar = 40

// progress tells on stderr how far a long run is, where that is a terminal and the run takes long
// enough: as a bar, where it is known how much there is.
type progress struct {
	p     *program
	what  string
	all   uint64 // how much there is; 0: nobody knows
	next  time.Time
	shown bool
}

func (p *program) progress(what string) *progress {
	return &progress{p: p, what: what, next: p.now().Add(progressDelay)}
}

// of says how much there is.
func (g *progress) of(all uint64) *progress {
	g.all = all
	return g
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
	if g.all == 0 {
		return screen.Cut(fmt.Sprintf("%s %s", humanize.Comma(int64(n)), g.what), columns-1)
	}
	share := min(1, float64(n)/float64(g.all))
	text := fmt.Sprintf(" %3.0f %%  %s of %s %s", 100*share, humanize.Comma(int64(n)), humanize.Comma(int64(g.all)), g.what)
	if width := min(widestBar, columns-len(text)-3); width > 0 {
		done := int(share * float64(width))
		text = "[" + strings.Repeat("#", done) + strings.Repeat(".", width-done) + "]" + text
	}
	return screen.Cut(text, columns-1)
}

// end removes what is shown.
func (g *progress) end() {
	if g.shown {
		fmt.Fprint(g.p.err, g.p.ours("\r\x1b[K"))
		g.shown = false
	}
}

// size is how many events the sources have that a query of a time selects; 0: nobody knows, or
// wants to.
func (p *program) size(ctx context.Context, j *operator.Journals, q history.Query) (all uint64) {
	if !p.errTerminal || !q.Since.IsZero() || !q.Until.IsZero() {
		return 0
	}
	for _, s := range j.Sources {
		n, err := sizeOf(ctx, s)
		if err != nil {
			return 0 // whoever reads it will say so
		}
		all += n
	}
	return all
}

// sizeOf is how many events one source has.
func sizeOf(ctx context.Context, s operator.Source) (uint64, error) {
	newest, err := s.Anchor(ctx)
	if err != nil {
		return 0, err
	}
	removed, err := s.Kept(ctx)
	if err != nil || removed == nil {
		return newest.Seq, err
	}
	return newest.Seq - min(newest.Seq, removed.First-1), nil
}

// errNeedsTable says why a folder is not enough.
var errNeedsTable = errors.New("the table is reached through the worker: leave --journal away, and name the worker with --host and --port, or use --master")

// tableCommand makes a command that compares journals with the table, which only their workers
// reach.
func (p *program) tableCommand(name, help string, exec func(ctx context.Context, j *operator.Journals) error) *cmd {
	return p.journalCommand(name, "", help, func(ctx context.Context, j *operator.Journals, _ []string) error {
		if len(j.Workers) == 0 && len(j.Sources) > 0 {
			return wrongUsage("journal %s: %w", name, errNeedsTable)
		}
		return exec(ctx, j)
	})
}

func (p *program) journalDiff() *cmd {
	var q history.DiffQuery
	c := p.tableCommand("diff", "rows that differ from the journal: not written yet, or changed by others", func(ctx context.Context, j *operator.Journals) error {
		found := p.report(true, "no row differs", "JOB", "CAUSE", "JOURNAL", "TABLE", "REASON").cutAt("WORKER|JOURNAL|TABLE|REASON")
		changed := 0
		err := eachItem(ctx, j, api.JournalDiff, q, func(s operator.Source, d history.Difference) error {
			if !q.Selects(d) {
				return nil // an older worker tells of all
			}
			tone := odd
			if d.Cause == history.CauseChanged {
				changed++
				tone = bad
			}
			form := struct {
				Worker string `json:"worker,omitempty"`
				history.Difference
			}{s.Worker(), d}
			return found.add(s.Worker(), form, tone, d.Job, d.Cause, describeWanted(d.Want), describeFound(d.Found), d.Reason)
		})
		if err = found.end(err); err == nil && changed > 0 {
			err = fmt.Errorf("rows that somebody else changed: %d", changed)
		}
		return err
	})
	c.FlagSet.BoolVar(&q.IgnoreDeleted, "ignore-deleted", false, "rows that are gone are no difference where their jobs have ended: for a table that is pruned")
	return c
}

// eachItem has the items of one stream of each worker visited, one worker after the other.
func eachItem[T any](ctx context.Context, j *operator.Journals, typ string, query any, visit func(operator.Source, T) error) error {
	for _, r := range j.Workers {
		for item, err := range operator.Stream[T](ctx, r, typ, query) {
			if err != nil {
				if err := j.Fail(r, err); err != nil {
					return err
				}
				break
			}
			if err := visit(r, item); err != nil {
				return err
			}
		}
	}
	return nil
}

func describeWanted(row *history.Row) string {
	if row == nil {
		return "not this worker's"
	}
	return operator.DescribeRow(*row)
}

func describeFound(row *history.Row) string {
	if row == nil {
		return "no row"
	}
	return operator.DescribeRow(*row)
}

func (p *program) journalReapply() *cmd {
	var since time.Time
	var lost []string
	var dry, yes, accept bool
	c := command("journal reapply [--since TIME] [--journal DIR]", "bring a table that was restored from a backup up to what the journals know, by guarded updates", func(ctx context.Context, args []string) error {
		return p.read(ctx, nil, func(ctx context.Context, j *operator.Journals) error {
			run := func(dry bool) (brought int, err error) {
				r := reapply{
					program: p, journals: j, query: history.ReapplyQuery{Since: since, DryRun: dry, AcceptUnknown: true},
					progress: p.progress("rows reapplied"),
					done:     p.report(true, "no row differs", "JOB", "DID", "JOURNAL", "TABLE", "REASON").cutAt("WORKER|JOURNAL|TABLE|REASON"),
				}
				defer r.progress.end()
				if err = r.all(ctx, lost, accept); err == nil && r.refused > 0 {
					err = fmt.Errorf("rows that were refused, and left as found: %d", r.refused)
				}
				return r.brought, err
			}
			if !dry && !yes && !p.json() && p.canAsk() {
				would, err := run(true)
				if would == 0 {
					return err
				}
				if err := p.confirm(ctx, fmt.Sprintf("%d rows would be brought to what the journals say.", would)); err != nil {
					return err
				}
			}
			_, err := run(dry)
			return err
		})
	})
	c.FlagSet.Func("since", "only jobs to which something happened from this time on: the time of the backup", p.moment(&since))
	c.FlagSet.Func("journal", "the folder, on a worker's machine, with the journal of a worker that is gone; more than once for several", folders(&lost))
	c.FlagSet.BoolVar(&dry, "dry-run", false, "only tell what would be done")
	c.FlagSet.BoolVar(&yes, "yes", false, "on a terminal: do not show it first and ask")
	c.FlagSet.BoolVar(&accept, "accept-unknown", false, "go on although rows wait of which no journal can tell whether they have run")
	return c
}

// reapply is one reapply by all workers.
type reapply struct {
	*program
	journals *operator.Journals
	query    history.ReapplyQuery
	done     *report
	progress *progress // counts the rows that differ
	brought  int       // rows that were, or would be
	refused  int
}

// all has the workers reapply their own journals, and then one of them each journal of a worker
// that is gone, unless there are rows that may have run before all that.
func (p *reapply) all(ctx context.Context, folders []string, accept bool) error {
	lost, err := p.findLost(ctx, folders)
	if err == nil {
		err = p.checkUnknown(ctx, lost, accept)
	}
	if err == nil {
		p.query.Retried, err = p.retried(ctx)
	}
	if err == nil {
		err = p.own(ctx)
	}
	for _, one := range lost {
		if err == nil {
			query := p.query
			query.Journal = one.folder
			err = p.stream(ctx, one.reader, query, func(r history.Reapplied) error { return p.printRow(one.reader, r) })
		}
	}
	return p.done.end(err)
}

// stream has a worker answer a query; a worker that fails is named, and the others go on.
func (p *reapply) stream(ctx context.Context, r *operator.Worker, query history.ReapplyQuery, use func(history.Reapplied) error) error {
	for item, err := range operator.Stream[history.Reapplied](ctx, r, api.JournalReapply, query) {
		if err != nil {
			return p.journals.Fail(r, err)
		}
		if err := use(item); err != nil {
			return err
		}
	}
	return nil
}

// own has all workers reapply their journals. Where one gave a row back that another was refused,
// since the row bore the first one's claim, all are asked again: what the other knows of the row
// applies now.
func (p *reapply) own(ctx context.Context) error {
	type reapplied = operator.From[history.Reapplied]
	for {
		var refused []reapplied
		gaveBack := false
		var err error
		for _, r := range p.journals.Workers {
			if err != nil {
				break
			}
			err = p.stream(ctx, r, p.query, func(item history.Reapplied) error {
				if item.Did == history.DidRefuse {
					refused = append(refused, reapplied{Source: r, Item: item})
					return nil
				}
				gaveBack = gaveBack || item.Did == history.DidApply && item.Want == nil
				return p.printRow(r, item)
			})
		}
		if err == nil && gaveBack && len(refused) > 0 {
			continue
		}
		for _, r := range refused {
			err = errors.Join(err, p.printRow(r.Source, r.Item))
		}
		return err
	}
}

// printRow prints what was done with a row.
func (p *reapply) printRow(s operator.Source, r history.Reapplied) error {
	if !p.terminal { // else the rows tell
		p.progress.at(p.done.count + 1)
	}
	worker, tone := s.Worker(), good
	if r.Did == history.DidRefuse {
		p.refused++
		tone = bad
	} else {
		p.brought++
	}
	if r.Journal != "" {
		worker = r.Journal
	}
	form := struct {
		Worker string `json:"worker,omitempty"`
		history.Reapplied
	}{worker, r}
	return p.done.add(worker, form, tone, r.Job, r.Did, describeWanted(r.Want), describeFound(r.Found), r.Reason)
}

// lostJournal is the journal of a worker that is gone, and the worker that reads it.
type lostJournal struct {
	folder string
	reader *operator.Worker
}

// findLost finds for each folder a worker that can read it.
func (p *reapply) findLost(ctx context.Context, folders []string) (lost []lostJournal, err error) {
	for _, dir := range folders {
		folder, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		var errs []error
		for _, r := range p.journals.Workers {
			_, err := p.unknown(ctx, r, history.ReapplyQuery{Journal: folder, Among: []int64{0}})
			if err == nil {
				lost = append(lost, lostJournal{folder, r})
				errs = nil
				break
			}
			errs = append(errs, r.Named(err))
		}
		if err := errors.Join(errs...); err != nil {
			return nil, fmt.Errorf("--journal %s: a worker must be able to read it: copy it to the machine of one: %w", dir, err)
		}
	}
	return lost, nil
}

package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

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
		span   *window
		follow bool
	)
	c := p.journalCommand("log", "", "the events, one a line", func(ctx context.Context, j *operator.Journals, _ []string) error {
		for _, kind := range kinds {
			q.Kinds = append(q.Kinds, journal.Kind(kind))
		}
		q.Since, q.Until = span.since.at, span.until.at
		if follow {
			return p.followEvents(ctx, j, q)
		}
		none := true
		err := p.printEvents(ctx, j, q, func(operator.Source, uint64) { none = false })
		if err == nil && none && !p.json() {
			err = p.sayNone("no events")
		}
		return err
	})
	span = p.windowFlags(c)
	c.FlagSet.Var(idFlag{&q.Job}, "job", "only events of this job")
	c.FlagSet.StringVar(&q.Target, "target", "", "only events of this target and its jobs")
	c.FlagSet.Var(oneOf{list: &kinds, allowed: kindNames()}, "kind", "only events of these kinds: "+strings.Join(kindNames(), ","))
	c.FlagSet.Var(oneOf{value: &q.Result, allowed: []string{"ok", "fail"}}, "result", "only ends with this result: ok or fail")
	c.FlagSet.StringVar(&q.AskedBy, "by", "", "only what somebody asked for who has this name or address, or this word in it")
	c.FlagSet.Var(countFlag{n: &q.Last}, "n", "only the newest N of them")
	c.FlagSet.BoolVar(&follow, "follow", false, "go on with the events to come, until interrupted")
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
			if err := printer.print(e.Source, e.Item); err != nil {
				return err
			}
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

func (p *eventPrinter) print(s operator.Source, e journal.Event) error {
	if p.json() {
		return p.printJSON(eventJSON(s.Worker(), e))
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
			if err := printer.print(e.from.Source, e.from.Item); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *program) journalExport() *cmd {
	var span *window
	format := "jsonl"
	c := p.journalCommand("export", "", "all events with all that is known of them, for other tools", func(ctx context.Context, j *operator.Journals, _ []string) error {
		q := history.Query{Output: true, Since: span.since.at, Until: span.until.at}
		progress := p.progress("events exported").of(p.size(ctx, j, q))
		return p.buffered(func() error { return p.export(j.Events(ctx, q), format, progress) })
	})
	span = p.windowFlags(c)
	c.FlagSet.Var(oneOf{value: &format, allowed: []string{"jsonl", "csv"}}, "format", "jsonl or csv")
	return c
}

func (p *program) export(events iter.Seq2[operator.From[journal.Event], error], format string, progress *progress) error {
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

// exporter writes events in a format.
func (p *program) exporter(format string) (write func(operator.From[journal.Event]) error, flush func() error) {
	if format == "jsonl" {
		write = func(e operator.From[journal.Event]) error { return p.printJSON(eventJSON(e.Source.Worker(), e.Item)) }
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
	write = func(e operator.From[journal.Event]) error {
		payload, err := json.Marshal(e.Item.Payload)
		if err != nil {
			return err
		}
		var stdout, stderr string
		if done, ok := e.Item.Payload.(journal.Done); ok {
			stdout, stderr = string(done.Stdout.Kept), string(done.Stderr.Kept)
		}
		return errors.Join(head(), w.Write([]string{
			harmless(e.Source.Worker()), strconv.FormatUint(e.Item.Seq, 10), e.Item.Time.UTC().Format(time.RFC3339Nano),
			strconv.FormatInt(e.Item.Job, 10), string(e.Item.Kind()), harmless(string(payload)), harmless(stdout), harmless(stderr), e.Item.Hash.String(),
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

func (p *program) journalConflicts() *cmd {
	var span *window
	c := p.journalCommand("conflicts", "", "rows that somebody else changed or deleted while they were the worker's", func(ctx context.Context, j *operator.Journals, _ []string) error {
		found := p.report(j.Named(), "no conflicts", "TIME", "SEQ", "JOB", "WANTED", "FOUND", "OWNER", "REASON").cutAt("WORKER|WANTED|FOUND|REASON")
		q := history.Query{Kinds: []journal.Kind{journal.KindConflict}, Since: span.since.at, Until: span.until.at}
		for e, err := range j.Events(ctx, q) {
			if err == nil {
				err = found.addConflict(e)
			}
			if err != nil {
				return found.end(err)
			}
		}
		return found.end(nil)
	})
	span = p.windowFlags(c)
	return c
}

// rowNotTold stands for a row that exists, and of which the journal does not say more.
const rowNotTold = "not told"

func (r *report) addConflict(e operator.From[journal.Event]) error {
	conflict, _ := e.Item.Payload.(journal.Conflict)
	found, owner := "no row", ""
	switch {
	case conflict.Found != nil:
		found, owner = conflict.Found.Status, conflict.Found.Owner
	case conflict.Reason != "": // the row is there: it was its update that was refused
		found = rowNotTold
	}
	worker := e.Source.Worker()
	return r.add(worker, eventJSON(worker, e.Item), plain,
		r.clock(e.Item.Time), e.Item.Seq, e.Item.Job, conflict.Wanted, found, owner, conflict.Reason)
}

// describe tells in one line what a payload says.
func describe(payload journal.Payload) string {
	switch e := payload.(type) {
	case journal.Accepted:
		return describeAccepted(e)
	case journal.Ignored:
		return clean(e.Reason)
	case journal.Released:
		return clean(e.Reason)
	case journal.Running:
		return pairs("attempt", e.Attempt, "timeout", someSeconds(e.Timeout), "executor", e.Executor)
	case journal.Started:
		if e.Address != "" {
			return pairs("address", e.Address)
		}
		return pairs("pid", e.Pid)
	case journal.Signal:
		return pairs("signal", signalName(e.Signo), "by", e.By, "ends", someYes(e.Ends))
	case journal.Done:
		return describeDone(e)
	case journal.Conflict:
		return describeConflict(e)
	case journal.SetAside:
		return pairs("wanted", e.Wanted, "reason", e.Reason)
	case journal.Marked:
		return pairs("mark", e.Mark)
	case journal.Server:
		return pairs("server", e.Server, "before", e.Before, "mended", e.Mended, "left", e.Left)
	case journal.Runner:
		return pairs("instance", e.Instance, "before", e.Before)
	case journal.Opened:
		return pairs("name", e.Name, "version", e.Version, "pid", e.Pid, "targets", concurrencies(e.Targets),
			"host", e.Host, "launcher", strings.Join(e.Launcher, " "), "launchers", describeLaunchers(e.Launchers))
	case journal.Closed:
		return clean(e.Reason)
	case journal.Paused:
		return pairs("targets", strings.Join(e.Targets, ","), "by", e.By)
	case journal.Continued:
		return pairs("targets", strings.Join(e.Targets, ","), "by", e.By)
	case journal.TargetAdded:
		return pairs("target", e.Target, "concurrency", e.Concurrency, "by", e.By)
	case journal.TargetRemoved:
		return pairs("target", e.Target, "by", e.By)
	case journal.Requeued:
		return pairs("reason", e.Reason, "by", e.By)
	case journal.Cancelled:
		return describeCancelled(e)
	case journal.Retried:
		return pairs("from", e.From, "result", e.Result, "to", e.To, "by", e.By)
	case journal.Planned:
		return describePlanned(e)
	case journal.Replanned:
		return describeReplanned(e)
	case journal.Requested:
		return pairs("request", e.Request, "jobs", someIDs(e.Jobs, e.More), "about", e.About, "by", e.By)
	case journal.Refused:
		return pairs("request", e.Request, "about", e.About, "reason", e.Reason, "by", e.By, "more_times", someTimes(e.Times))
	case journal.Registered:
		return pairs("worker", e.Worker, "targets", listed(e.Targets, e.More), "by", e.By, "more_times", someTimes(e.Times))
	case journal.Left:
		return pairs("worker", e.Worker, "reason", e.Reason, "by", e.By, "more_times", someTimes(e.Times))
	case journal.Reloaded:
		return pairs("file", e.File, "digest", e.Digest, "changed", strings.Join(e.Changed, ","), "launcher", strings.Join(e.Launcher, " "),
			"launchers", describeLaunchers(e.Launchers), "by", e.By)
	case journal.Reapplied:
		return describeReapplied(e)
	case journal.Retention:
		return pairs("first", e.First, "last", e.Last, "seq", e.Seq, "archive", e.Archive, "reason", e.Reason)
	case journal.ConcurrencySet:
		return pairs("target", e.Target, "concurrency", e.Concurrency, "by", e.By)
	}
	return ""
}

// describeCancelled tells who cancelled a job, and, where that runs, how long it gets to end.
func describeCancelled(e journal.Cancelled) string {
	grace := ""
	if e.Runs {
		grace = (time.Duration(e.Grace) * time.Microsecond).String()
	}
	return pairs("by", e.By, "grace", grace)
}

func describeDone(e journal.Done) string {
	parts := []any{"result", e.Result}
	if e.Code != nil {
		parts = append(parts, "code", *e.Code)
	}
	elapsed := ""
	if ran, known := measured(e); known {
		elapsed = ran.String()
	}
	parts = append(parts, "signal", e.Signal, "stdout", e.Stdout.Size, "stderr", e.Stderr.Size, "elapsed", elapsed, "reason", e.Reason)
	parts = append(parts, "timeout", someSeconds(e.Timeout), "final", someYes(e.Final), "retry-after", someSeconds(e.RetryAfter))
	return words(pairs(parts...), describeAgain(e.Again))
}

func describeConflict(e journal.Conflict) string {
	found := "the row is gone"
	switch {
	case e.Found == nil && e.Reason != "": // its update was refused
		found = rowNotTold
	case e.Found != nil:
		found = fmt.Sprintf("status=%s owner=%s", clean(e.Found.Status), quoteIfNeeded(clean(e.Found.Owner)))
	}
	return strings.TrimRight("found: "+found+" "+pairs("wanted", e.Wanted, "reason", e.Reason), " ")
}

// describeReapplied tells of a reapply, which has an event before its first row and one behind its
// last.
func describeReapplied(e journal.Reapplied) string {
	if e.Ended {
		return pairs("rows", e.Rows, "refused", e.Refused, "journal", e.Journal, "by", e.By)
	}
	since := ""
	if e.Since != 0 {
		since = time.UnixMicro(e.Since).UTC().Format(time.RFC3339)
	}
	return pairs("from", e.From, "to", e.To, "since", since, "journal", e.Journal, "rows", someTimes(e.Rows), "by", e.By, "notes", e.Notes)
}

// someTimes is a count that is left out where there is none.
func someTimes(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// someIDs lists ids, the first few of many; so many more are not among them.
func someIDs(ids []int64, unlisted int) string {
	const most = 8
	var parts []string
	for _, id := range ids[:min(len(ids), most)] {
		parts = append(parts, fmt.Sprint(id))
	}
	return listed(parts, max(len(ids)-most, 0)+unlisted)
}

// listed are names, and how many there are beyond those.
func listed(names []string, more int) string {
	text := strings.Join(names, ",")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func concurrencies(targets map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		parts = append(parts, fmt.Sprintf("%s:%d", name, targets[name]))
	}
	return strings.Join(parts, ",")
}

// pairs prints names and values, leaving out the empty ones.
func pairs(namesAndValues ...any) string {
	var parts []string
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		if value := clean(fmt.Sprint(namesAndValues[i+1])); value != "" {
			parts = append(parts, fmt.Sprintf("%s=%s", namesAndValues[i], quoteIfNeeded(value)))
		}
	}
	return strings.Join(parts, " ")
}

// quoteIfNeeded puts text that was cleaned into quotes where it would not be one word without.
func quoteIfNeeded(text string) string {
	if text == "" || strings.ContainsAny(text, " \"=") {
		return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
	}
	return text
}

// This file has the lines of events that tell of time: when a row was due, and when it comes back.

// describeAccepted tells of a claim: what its row said about time, where it said something.
func describeAccepted(e journal.Accepted) string {
	text := pairs("target", e.Target, "token", e.Token, "manual", someYes(e.Manual), "from", e.From)
	if plan := e.Plan; plan != nil {
		text = words(text, pairs("due", someMoment(plan.RunAt), "planned", someMoment(e.PlannedAt),
			"attempts", someCount(plan.Attempts), "schedule", plan.Schedule, "zone", plan.Zone))
	}
	return text
}

// describePlanned tells of a row that was not run, and is due at another time.
func describePlanned(e journal.Planned) string {
	return words(pairs("target", e.Target, "was_due", someMoment(e.From.RunAt)), describeAgain(&e.To), pairs("reason", e.Reason, "by", e.By))
}

// describeReplanned tells what follows a run whose schedule was edited meanwhile.
func describeReplanned(e journal.Replanned) string {
	follows := describeAgain(e.Again)
	if e.Again == nil {
		follows = "again=no"
	}
	return words(pairs("schedule", e.Schedule, "zone", e.Zone), follows, pairs("note", e.Note))
}

// describeAgain tells when a row comes back, and why; "" where it does not.
func describeAgain(again *journal.Again) string {
	if again == nil {
		return ""
	}
	planned := ""
	if again.PlannedAt != again.RunAt {
		planned = someMoment(again.PlannedAt)
	}
	return pairs("again", someMoment(again.RunAt), "planned", planned, "attempts", someCount(again.Attempts), "why", again.Why)
}

// words joins texts by blanks, without those that are empty.
func words(texts ...string) string {
	var some []string
	for _, text := range texts {
		if text != "" {
			some = append(some, text)
		}
	}
	return strings.Join(some, " ")
}

// someMoment is a time of a row, in UTC; "" where there is none.
func someMoment(seconds int64) string {
	if seconds == 0 {
		return ""
	}
	return time.Unix(seconds, 0).UTC().Format(time.RFC3339)
}

// someSeconds is a length of time; "" where there is none.
func someSeconds(seconds int64) string {
	if seconds == 0 {
		return ""
	}
	return (time.Duration(seconds) * time.Second).String()
}

// someCount is a count that is left out where there is none.
func someCount(n int64) string { return someTimes(int(n)) }

// someYes is the word of what holds, and is left out where it does not.
func someYes(holds bool) string {
	if !holds {
		return ""
	}
	return "yes"
}

// describeLaunchers are the launchers of targets that have one of their own.
func describeLaunchers(launchers map[string][]string) string {
	var all []string
	for _, target := range slices.Sorted(maps.Keys(launchers)) {
		all = append(all, target+": "+strings.Join(launchers[target], " "))
	}
	return strings.Join(all, "; ")
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/journal/replay"
	jobnet "jobd/net"
	"jobd/net/api"
)

// journal is the commands that read journals: from a worker's folder, through the worker, or
// through a master from all its workers.
func (p *program) journal() *ffcli.Command {
	c := command("journal", "journal COMMAND [--journal DIR]", "read the journal of a worker, from its folder or through it; with --master those of all workers", nil)
	c.Subcommands = []*ffcli.Command{
		p.journalLog(), p.journalShow(), p.journalState(), p.journalConflicts(), p.journalStats(),
		p.journalExport(), p.journalVerify(), p.journalAnchor(), p.journalDiff(), p.journalReapply(),
	}
	return c
}

// journalCommand makes a command that gets the journals which the flags name.
func (p *program) journalCommand(name, arguments, help string, exec func(ctx context.Context, j *journals, args []string) error) *ffcli.Command {
	var dirs dirsFlag
	c := command(name, "journal "+name+arguments+" [--journal DIR]", help, func(ctx context.Context, args []string) error {
		if arguments == "" && len(args) > 0 {
			return wrongUsage("journal %s: takes no arguments, got %q", name, args)
		}
		return p.read(ctx, dirs, func(ctx context.Context, j *journals) error { return exec(ctx, j, args) })
	})
	c.FlagSet.Var(&dirs, "journal", "the folder of the journal, more than once for several; without it, the worker or master at --host and --port is asked")
	return c
}

// checkFirst has a command's words and flags checked before a journal is opened or anybody asked.
func checkFirst(c *ffcli.Command, check func(args []string) error) {
	run := c.Exec
	c.Exec = func(ctx context.Context, args []string) error {
		if err := check(args); err != nil {
			return err
		}
		return run(ctx, args)
	}
}

// dirsFlag is a flag.Value for folders, one each time that it is given.
type dirsFlag []string

// String implements flag.Value.
func (f *dirsFlag) String() string { return "" }

// Set implements flag.Value.
func (f *dirsFlag) Set(text string) error {
	if text == "" {
		return errors.New("it must not be empty")
	}
	*f = append(*f, text)
	return nil
}

// source is one worker's journal, wherever it is read: from its folder, or through the worker.
type source interface {
	// worker is the worker's name, "" where only one journal is read and there is nothing to tell apart.
	worker() string
	// owner is the worker's name as the journal tells it, or else its folder; "" where nobody but the link tells.
	owner() string
	// journalName is the worker's name as the journal tells it; "" where it tells none, or is not asked.
	journalName(ctx context.Context) (string, error)
	// link is the worker through which the journal is read; nil where it is read from its folder.
	link() *remote
	// events gives the selected events, oldest first. It ends at the first error.
	events(ctx context.Context, q history.Query) iter.Seq2[journal.Event, error]
	// jobs gives every job as it stood at a time, in the order of replay.Reader.Jobs.
	jobs(ctx context.Context, q history.AtQuery) iter.Seq2[history.Job, error]
	// audit verifies the journal and compares it with anchors.
	audit(ctx context.Context, anchors []journal.Anchor, progress func(seq uint64)) (history.Verdict, error)
	// anchor is the newest event's number and hash.
	anchor(ctx context.Context) (journal.Anchor, error)
	// kept says what retention has removed; nil: nothing.
	kept(ctx context.Context) (*journal.RemovedError, error)
}

// folder is a journal in a folder of this machine.
type folder struct {
	reader *replay.Reader
	dir    string // as it was given
	own    string // the worker's name, as the journal has it; of a journal that does not tell, the folder's
	name   string // the same, where several are read, made to differ from the others'; else ""
}

func (f folder) worker() string { return f.name }

func (f folder) owner() string { return f.own }

func (f folder) journalName(ctx context.Context) (string, error) { return f.reader.Name(ctx) }

func (f folder) link() *remote { return nil }

func (f folder) events(ctx context.Context, q history.Query) iter.Seq2[journal.Event, error] {
	return history.Events(ctx, f.reader, q)
}

func (f folder) jobs(ctx context.Context, q history.AtQuery) iter.Seq2[history.Job, error] {
	return history.Jobs(ctx, f.reader, q)
}

func (f folder) audit(ctx context.Context, anchors []journal.Anchor, progress func(seq uint64)) (history.Verdict, error) {
	return history.Audit(ctx, f.reader, anchors, progress)
}

func (f folder) anchor(ctx context.Context) (journal.Anchor, error) { return f.reader.Anchor(ctx) }

func (f folder) kept(ctx context.Context) (*journal.RemovedError, error) { return f.reader.Kept(ctx) }

// journals are the sources that a command reads, and what could not be read.
type journals struct {
	sources []source
	remotes []*remote // the sources again, where they are read through workers
	failed  []error   // workers that could not be asked, or failed on the way; the others go on

	note  func(error) // tells what is worth knowing, and no failure
	noted bool
}

// read opens what the flags name (folders, else a worker or a master), has it read, and tells what failed.
func (p *program) read(ctx context.Context, dirs []string, use func(ctx context.Context, j *journals) error) error {
	if len(dirs) > 0 {
		if p.giveWay != nil {
			p.giveWay()
		}
		return p.readFolders(ctx, dirs, use)
	}
	return p.linked(ctx, func(ctx context.Context, client *client) error {
		if err := client.expect(ctx); err != nil {
			return err
		}
		j, err := p.remotes(ctx, client)
		if err != nil {
			return err
		}
		return j.use(ctx, use)
	})
}

// readFolders has folders read, whatever daemon is configured.
func (p *program) readFolders(ctx context.Context, dirs []string, use func(ctx context.Context, j *journals) error) error {
	j := &journals{note: p.note}
	var folders []folder
	for i, dir := range dirs {
		if slices.ContainsFunc(dirs[:i], func(other string) bool { return filepath.Clean(other) == filepath.Clean(dir) }) {
			return wrongUsage("--journal %s is given twice", dir)
		}
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return fmt.Errorf("open journal %s: this is not a folder", dir)
		}
		r, err := replay.Open(dir)
		if err != nil {
			return err
		}
		defer r.Close()
		folders = append(folders, folder{reader: r, dir: dir, own: ownerOf(ctx, r, dir)})
	}
	if len(folders) > 1 {
		p.tellApart(folders)
	}
	for _, f := range folders {
		j.sources = append(j.sources, f)
	}
	return j.use(ctx, use)
}

// ownerOf is the name of the worker whose journal a folder holds. One that does not tell, or is damaged, which its reader will
// notice, has the folder's.
func ownerOf(ctx context.Context, r *replay.Reader, dir string) string {
	if name, err := r.Name(ctx); err == nil && name != "" {
		return name
	}
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute
	}
	return filepath.Base(dir)
}

// tellApart gives folders their names. Where two journals are of one name, as an archive and what it was cut off from are, or
// those of two hosts whose workers were named alike, each bears its folder too, and that is said.
func (p *program) tellApart(folders []folder) {
	count := make(map[string]int)
	for _, f := range folders {
		count[f.own]++
	}
	for i := range folders {
		f := &folders[i]
		if f.name = f.own; count[f.own] > 1 {
			f.name = fmt.Sprintf("%s (%s)", f.own, f.dir)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if n := count[name]; n > 1 {
			p.note(fmt.Errorf("%d journals are of worker '%s': they are told apart by their folders", n, clean(name)))
		}
	}
}

// use has the journals read; what failed on the way is told with the rest.
func (j *journals) use(ctx context.Context, read func(ctx context.Context, j *journals) error) error {
	err := read(ctx, j)
	return errors.Join(why(ctx, err), errors.Join(j.failed...))
}

// named tells whether lines need the worker's name.
func (j *journals) named() bool { return len(j.sources) > 0 && j.sources[0].worker() != "" }

// fail notes why a source gives no more. One alone is the command's own failure; of several the others go on.
func (j *journals) fail(s source, err error) error {
	if s.worker() == "" || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	j.failed = append(j.failed, fmt.Errorf("worker '%s': %w", clean(s.worker()), err))
	return nil
}

// each has all sources visited, one after the other.
func (j *journals) each(visit func(source) error) error {
	for _, s := range j.sources {
		if err := visit(s); err != nil {
			if err := j.fail(s, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// from is an item and the source that it is from.
type from[T any] struct {
	source source
	item   T
}

// merge gives the items of all sources in one order; each source's own are in it. It holds one item of each.
func merge[T any](j *journals, open func(source) iter.Seq2[T, error], before func(a, b T) bool) iter.Seq2[from[T], error] {
	return func(yield func(from[T], error) bool) {
		type head struct {
			from[T]
			next func() (T, error, bool)
		}
		var heads []*head
		advance := func(h *head) (more bool, err error) {
			item, err, ok := h.next()
			if ok && err != nil {
				return false, j.fail(h.source, err)
			}
			h.item = item
			return ok, nil
		}
		for _, s := range j.sources {
			next, stop := iter.Pull2(open(s))
			defer stop()
			h := &head{from[T]{source: s}, next}
			more, err := advance(h)
			if err != nil {
				yield(from[T]{}, err)
				return
			}
			if more {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			first := 0
			for i := range heads {
				if before(heads[i].item, heads[first].item) {
					first = i
				}
			}
			if !yield(heads[first].from, nil) {
				return
			}
			more, err := advance(heads[first])
			if err != nil {
				yield(from[T]{}, err)
				return
			}
			if !more {
				heads = append(heads[:first], heads[first+1:]...)
			}
		}
	}
}

// events gives the selected events of all sources, merged by time; with q.Last the newest of all.
func (j *journals) events(ctx context.Context, q history.Query) iter.Seq2[from[journal.Event], error] {
	err := inOrder(q.Since, q.Until)
	if err == nil {
		err = j.noteRemoved(ctx, q.Since, q.Until)
	}
	if err != nil {
		return func(yield func(from[journal.Event], error) bool) { yield(from[journal.Event]{}, err) }
	}
	all := merge(j, func(s source) iter.Seq2[journal.Event, error] { return s.events(ctx, q) },
		func(a, b journal.Event) bool { return a.Time.Before(b.Time) })
	if q.Last > 0 && len(j.sources) > 1 {
		return history.Newest(all, q.Last)
	}
	return all
}

// noteRemoved tells, once, of the sources whose history does not go back to a time (the zero time: wherever it begins). Where it
// does not even go back to until, that is an error.
func (j *journals) noteRemoved(ctx context.Context, since, until time.Time) error {
	if since.IsZero() || j.noted {
		return nil
	}
	j.noted = true
	return j.each(func(s source) error {
		removed, err := s.kept(ctx)
		switch {
		case err != nil || removed == nil || since.After(removed.Since):
			return err
		case !until.IsZero() && !until.After(removed.Since):
			return removed
		}
		j.note(named(s, removed))
		return nil
	})
}

// remote is a journal that is read through its worker, maybe through the master that knows it.
type remote struct {
	client  *client
	name    string // the worker's; "" where there is no master
	address string // by which the master knows the worker
}

// remotes finds the journals that the daemon at the other end leads to: its own, or those of a
// master's workers.
func (p *program) remotes(ctx context.Context, c *client) (*journals, error) {
	j := &journals{note: p.note}
	add := func(r *remote) { j.sources, j.remotes = append(j.sources, r), append(j.remotes, r) }
	if !p.config.master {
		add(&remote{client: c})
		return j, nil
	}
	var answer api.Relayed
	if err := c.askInto(ctx, api.JournalAnchor, nil, &answer); err != nil {
		return nil, misses(err)
	}
	for _, w := range answer.Workers {
		if w.Error != "" {
			j.failed = append(j.failed, fmt.Errorf("worker '%s': %w", clean(w.Name), misses(&jobnet.RemoteError{Text: clean(w.Error)})))
			continue
		}
		add(&remote{client: c, name: w.Name, address: w.Address})
	}
	if len(answer.Workers) == 0 {
		return nil, errors.New("no worker is registered with the master")
	}
	return j, nil
}

// misses explains the error of a peer that does not know the requests; nil stays nil.
func misses(err error) error {
	if err != nil && jobnet.CodeOf(err) == jobnet.CodeUnknown {
		return fmt.Errorf("it does not serve its journal, because it is an older jobd, or the original; its folder can be read with --journal DIR: %w", err)
	}
	return err
}

func (r *remote) worker() string { return r.name }

func (r *remote) owner() string { return "" }

func (r *remote) journalName(context.Context) (string, error) { return "", nil }

func (r *remote) link() *remote { return r }

// ask asks the worker, through its master where there is one.
func (r *remote) ask(ctx context.Context, typ string, data map[string]any, into any) error {
	if r.address == "" {
		return misses(r.client.askInto(ctx, typ, data, into))
	}
	relay := map[string]any{"worker": r.address}
	for key, value := range data {
		relay[key] = value
	}
	var answer api.Relayed
	if err := r.client.askInto(ctx, typ, relay, &answer); err != nil {
		return err
	}
	if len(answer.Workers) != 1 {
		return fmt.Errorf("the master gave %d answers to %s", len(answer.Workers), typ)
	}
	if text := answer.Workers[0].Error; text != "" {
		return misses(&jobnet.RemoteError{Text: clean(text)})
	}
	return json.Unmarshal(answer.Workers[0].Data, into)
}

// fieldsOf is a query as the data of a request.
func fieldsOf(query any) map[string]any {
	fields := map[string]any{}
	var members map[string]json.RawMessage // as they are: any would round numbers
	encoded, err := json.Marshal(query)
	if err == nil {
		err = json.Unmarshal(encoded, &members)
	}
	if err != nil {
		panic(err) // queries are plain structs
	}
	for name, value := range members {
		fields[name] = value
	}
	return fields
}

// closeTimeout is how long the end of reading waits for the worker to hear of it.
const closeTimeout = 2 * time.Second

// stream gives the items of a stream that a request opens, page by page.
func stream[T any](ctx context.Context, r *remote, typ string, query map[string]any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		var opened api.Opened
		if err := r.ask(ctx, typ, query, &opened); err != nil {
			yield(none, err)
			return
		}
		for item, err := range pages[T](ctx, r, typ, opened.Cursor) {
			if !yield(item, err) {
				return
			}
		}
	}
}

// pages gives the items of a stream that is open, page by page.
func pages[T any](ctx context.Context, r *remote, typ, id string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		cursor := map[string]any{"cursor": id}
		ended := false
		defer func() {
			if ended {
				return
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer cancel()
			_ = r.ask(ctx, api.JournalClose, cursor, new(json.RawMessage)) // the worker drops it anyway, later
		}()
		for {
			var page history.Page
			if err := r.ask(ctx, api.JournalNext, cursor, &page); err != nil {
				yield(none, err)
				return
			}
			for _, text := range page.Items {
				var item T
				if err := json.Unmarshal(text, &item); err != nil {
					yield(none, fmt.Errorf("answer to %s is not understood: %w", typ, err))
					return
				}
				if !yield(item, nil) {
					return
				}
			}
			if page.More {
				continue
			}
			ended = true
			if page.Error != "" {
				yield(none, &jobnet.RemoteError{Text: clean(page.Error)})
			}
			return
		}
	}
}

func (r *remote) events(ctx context.Context, q history.Query) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for e, err := range r.known(ctx, q) {
			if !yield(e.Event, err) {
				return
			}
		}
	}
}

func (r *remote) jobs(ctx context.Context, q history.AtQuery) iter.Seq2[history.Job, error] {
	return func(yield func(history.Job, error) bool) {
		for job, err := range stream[history.Job](ctx, r, api.JournalState, fieldsOf(q)) {
			if err == nil && !q.UnderWay && !q.Selects(job) {
				continue // an older worker tells of all
			}
			if !yield(job, err) {
				return
			}
		}
	}
}

func (r *remote) audit(ctx context.Context, anchors []journal.Anchor, progress func(seq uint64)) (history.Verdict, error) {
	lines := make([]string, len(anchors))
	for i, anchor := range anchors {
		lines[i] = anchor.String()
	}
	for step, err := range stream[history.AuditStep](ctx, r, api.JournalVerify, map[string]any{"anchors": lines}) {
		if err != nil {
			return history.Verdict{}, err
		}
		if step.Verdict != nil {
			return *step.Verdict, nil
		}
		progress(step.Verified)
	}
	return history.Verdict{}, errors.New("the worker gave no verdict")
}

func (r *remote) kept(ctx context.Context) (*journal.RemovedError, error) {
	var answer history.AnchorAnswer
	err := r.ask(ctx, api.JournalAnchor, nil, &answer)
	return answer.Kept(), err
}

func (r *remote) anchor(ctx context.Context) (journal.Anchor, error) {
	var answer history.AnchorAnswer
	if err := r.ask(ctx, api.JournalAnchor, nil, &answer); err != nil || answer.Seq == 0 {
		return journal.Anchor{}, err
	}
	return journal.ParseAnchor(fmt.Sprintf("%d %s", answer.Seq, answer.Hash))
}

// selected gives the events of a query that has fields which workers of older versions pass over:
// they would answer as if it asked for less. Such a worker is asked for all that may be selected,
// and what is wanted of that is chosen here.
func (r *remote) selected(ctx context.Context, q history.Query) iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		var opened api.Opened
		if err := r.ask(ctx, api.JournalEvents, fieldsOf(q), &opened); err != nil {
			yield(history.Event{}, err)
			return
		}
		special := q.Special()
		if slices.Equal(opened.Understood, special) {
			for e, err := range pages[history.Event](ctx, r, api.JournalEvents, opened.Cursor) {
				if !yield(e, err) {
					return
				}
			}
			return
		}
		r.forget(ctx, opened.Cursor)
		for e, err := range chosen(q, stream[history.Event](ctx, r, api.JournalEvents, fieldsOf(wider(q)))) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// forget ends a stream that nobody wants.
func (r *remote) forget(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	var closed any
	_ = r.ask(ctx, api.JournalClose, map[string]any{"cursor": id}, &closed) // the worker drops it anyway, later
}

// wider is a query, in the words of older versions, that selects at least as much. The newest few of
// what it selects are not the newest few of what is wanted.
func wider(q history.Query) history.Query {
	if q.Result != "" && len(q.Kinds) == 0 {
		q.Kinds = []journal.Kind{journal.KindDone}
	}
	q.Output = q.Output || q.LastLine
	if q.Result != "" || q.AskedBy != "" {
		q.Last = 0
	}
	q.Result, q.AskedBy, q.LastLine = "", "", false
	return q
}

// chosen chooses what is wanted of events that may be more.
func chosen(q history.Query, events iter.Seq2[history.Event, error]) iter.Seq2[history.Event, error] {
	wanted := func(yield func(history.Event, error) bool) {
		for e, err := range events {
			if err == nil && !q.Selects(e.Event) {
				continue
			}
			if q.LastLine && err == nil {
				e.Event = history.WithLastLine(e.Event)
			}
			if !yield(e, err) {
				return
			}
		}
	}
	if q.Last > 0 && !q.Follow {
		return history.Newest(wanted, q.Last)
	}
	return wanted
}

// known gives the events of a query, whose kinds a worker of an older version may not all know. It
// has no events of those that it does not know, so it is asked for the others.
func (r *remote) known(ctx context.Context, q history.Query) iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		for {
			unknown := -1
			for e, err := range r.asked(ctx, q) {
				if unknown = unknownKind(err, q.Kinds); unknown >= 0 {
					break
				}
				if !yield(e, err) {
					return
				}
			}
			if unknown < 0 {
				return
			}
			q.Kinds = slices.Delete(slices.Clone(q.Kinds), unknown, unknown+1)
			if len(q.Kinds) == 0 { // which would ask for all of them
				return
			}
		}
	}
}

// asked gives the events of a query as the worker answers it.
func (r *remote) asked(ctx context.Context, q history.Query) iter.Seq2[history.Event, error] {
	if len(q.Special()) > 0 {
		return r.selected(ctx, q)
	}
	return stream[history.Event](ctx, r, api.JournalEvents, fieldsOf(q))
}

// unknownKind tells which of these kinds a worker refuses, because it does not know it; -1: none.
// Older ones say so by their text alone.
func unknownKind(err error, kinds []journal.Kind) int {
	if err == nil {
		return -1
	}
	return slices.IndexFunc(kinds, func(kind journal.Kind) bool {
		return strings.HasSuffix(err.Error(), "unknown kind of event '"+string(kind)+"'")
	})
}

// report is how journal commands print what they find, item by item: as JSON, one a line, or as
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

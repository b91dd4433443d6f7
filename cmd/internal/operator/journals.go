package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/journal/replay"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Source is one worker's journal, wherever it is read: from its folder, or through the worker.
type Source interface {
	// Worker is the worker's name, "" where only one journal is read and there is nothing to tell apart.
	Worker() string
	// JournalName is the worker's name as the journal tells it; "" where it tells none, or is not asked.
	JournalName(ctx context.Context) (string, error)
	// Link is the worker through which the journal is read; nil where it is read from its folder.
	Link() *Worker
	// Events gives the selected events, oldest first. It ends at the first error.
	Events(ctx context.Context, q history.Query) iter.Seq2[journal.Event, error]
	// Jobs gives every job as it stood at a time, in the order of replay.Reader.Jobs.
	Jobs(ctx context.Context, q history.AtQuery) iter.Seq2[history.Job, error]
	// Audit verifies the journal and compares it with anchors.
	Audit(ctx context.Context, anchors []journal.Anchor, progress func(seq uint64)) (history.Verdict, error)
	// Anchor is the newest event's number and hash.
	Anchor(ctx context.Context) (journal.Anchor, error)
	// Kept says what retention has removed; nil: nothing.
	Kept(ctx context.Context) (*journal.RemovedError, error)
}

// Folder is a journal in a folder of this machine.
type Folder struct {
	Reader *replay.Reader
	Dir    string // as it was given
	Own    string // the worker's name, as the journal has it; of a journal that does not tell, the folder's
	Name   string // the same, where several are read, made to differ from the others'; else ""
	Master bool   // it is a master's: what that was asked for and refused, about any jobs
}

// Worker implements Source.
func (f Folder) Worker() string { return f.Name }

// JournalName implements Source.
func (f Folder) JournalName(ctx context.Context) (string, error) { return f.Reader.Name(ctx) }

// Link implements Source.
func (f Folder) Link() *Worker { return nil }

// Events implements Source. Those of a job in a master's journal are the requests that name it.
func (f Folder) Events(ctx context.Context, q history.Query) iter.Seq2[journal.Event, error] {
	if !f.Master || q.Job == 0 {
		return history.Events(ctx, f.Reader, q)
	}
	job, last := int64(q.Job), q.Last
	q.Job, q.Last = 0, 0
	if len(q.Kinds) == 0 {
		q.Kinds = []journal.Kind{journal.KindRequested, journal.KindRefused}
	}
	about := func(yield func(journal.Event, error) bool) {
		for e, err := range history.Events(ctx, f.Reader, q) {
			if (err != nil || names(e.Payload, job)) && !yield(e, err) {
				return
			}
		}
	}
	if last == 0 {
		return about
	}
	return history.Newest(about, last)
}

// names tells whether an event is a request that names a job.
func names(payload journal.Payload, job int64) bool {
	switch e := payload.(type) {
	case journal.Requested:
		return slices.Contains(e.Jobs, job)
	case journal.Refused:
		return slices.Contains(e.Jobs, job)
	}
	return false
}

// Jobs implements Source.
func (f Folder) Jobs(ctx context.Context, q history.AtQuery) iter.Seq2[history.Job, error] {
	return history.Jobs(ctx, f.Reader, q)
}

// Audit implements Source.
func (f Folder) Audit(ctx context.Context, anchors []journal.Anchor, progress func(seq uint64)) (history.Verdict, error) {
	return history.Audit(ctx, f.Reader, anchors, progress)
}

// Anchor implements Source.
func (f Folder) Anchor(ctx context.Context) (journal.Anchor, error) { return f.Reader.Anchor(ctx) }

// Kept implements Source.
func (f Folder) Kept(ctx context.Context) (*journal.RemovedError, error) { return f.Reader.Kept(ctx) }

// Journals are the sources that are read together, and what could not be read.
type Journals struct {
	Sources []Source
	Workers []*Worker   // the sources again, where they are read through workers
	Failed  []error     // workers that could not be asked, or failed on the way; the others go on
	Note    func(error) // tells what is worth knowing, and no failure

	Look       uint64    // how many events of each are looked at, the newest that are wanted by their time; 0: all
	LookedBack time.Time // how far back all were looked at, where Look left out events; else zero

	noted  bool
	behind map[Source]uint64 // the events behind which are looked at
}

// journalsOf are the journals of some workers.
func journalsOf(workers []*Worker, note func(error)) *Journals {
	j := &Journals{Workers: workers, Note: note}
	for _, w := range workers {
		j.Sources = append(j.Sources, w)
	}
	return j
}

// FindJournals finds the journals that a daemon leads to: its own, or those of a master's workers.
func FindJournals(ctx context.Context, d *Daemon, note func(error)) (*Journals, error) {
	if !d.Master {
		return journalsOf([]*Worker{d.direct()}, note), nil
	}
	return findBy[history.AnchorAnswer](ctx, d, api.JournalAnchor, nil, note)
}

// FindTables is FindJournals for who only looks at rows by their ids, as who submits jobs may.
func FindTables(ctx context.Context, d *Daemon, note func(error)) (*Journals, error) {
	if !d.Master {
		return journalsOf([]*Worker{d.direct()}, note), nil
	}
	return findBy[history.RowsAnswer](ctx, d, api.JournalRows, map[string]any{"ids": []int{}}, note)
}

// findBy finds a master's workers by a request to all that has no effect.
func findBy[A any](ctx context.Context, d *Daemon, request string, data any, note func(error)) (*Journals, error) {
	all, err := All[A](ctx, d, request, data)
	if err != nil {
		return nil, err
	}
	j := journalsOf(answered(all), note)
	for _, one := range all {
		if one.Err != nil {
			j.Failed = append(j.Failed, one.From.Named(one.Err))
		}
	}
	if len(j.Workers) > 1 {
		d.noteTargets(ctx, j.Workers)
	}
	return j, nil
}

// Named tells whether lines need the worker's name.
func (j *Journals) Named() bool { return len(j.Sources) > 0 && j.Sources[0].Worker() != "" }

// OfMasters tells whether all of them are journals of masters, which don't tell what became of jobs.
func (j *Journals) OfMasters() bool {
	return !slices.ContainsFunc(j.Sources, func(s Source) bool { f, is := s.(Folder); return !is || !f.Master })
}

// Err is a reader's error, with what failed on the way.
func (j *Journals) Err(ctx context.Context, err error) error {
	return errors.Join(exit.Why(ctx, err), errors.Join(j.Failed...))
}

// Fail notes why a source gives no more. One alone is the command's own failure; of several the others go on.
func (j *Journals) Fail(s Source, err error) error {
	if s.Worker() == "" || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	j.Failed = append(j.Failed, Named(s.Worker(), err))
	return nil
}

// Each has all sources visited, one after the other.
func (j *Journals) Each(visit func(Source) error) error {
	for _, s := range j.Sources {
		if err := visit(s); err != nil {
			if err := j.Fail(s, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// From is an item and the source that it is from.
type From[T any] struct {
	Source Source
	Item   T
}

// Merge gives the items of all sources in the order of before. Each source must give its own items in
// that order. Merge holds one item of each source at a time.
func Merge[T any](j *Journals, open func(Source) iter.Seq2[T, error], before func(a, b T) bool) iter.Seq2[From[T], error] {
	return func(yield func(From[T], error) bool) {
		type head struct {
			From[T]
			next func() (T, error, bool)
		}
		var heads []*head
		advance := func(h *head) (more bool, err error) {
			item, err, ok := h.next()
			if ok && err != nil {
				return false, j.Fail(h.Source, err)
			}
			h.Item = item
			return ok, nil
		}
		for _, s := range j.Sources {
			next, stop := iter.Pull2(open(s))
			defer stop()
			h := &head{From[T]{Source: s}, next}
			more, err := advance(h)
			if err != nil {
				yield(From[T]{}, err)
				return
			}
			if more {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			first := 0
			for i := range heads {
				if before(heads[i].Item, heads[first].Item) {
					first = i
				}
			}
			if !yield(heads[first].From, nil) {
				return
			}
			more, err := advance(heads[first])
			if err != nil {
				yield(From[T]{}, err)
				return
			}
			if !more {
				heads = append(heads[:first], heads[first+1:]...)
			}
		}
	}
}

// Events gives the selected events of all sources, merged by time; with q.Last the newest of all.
func (j *Journals) Events(ctx context.Context, q history.Query) iter.Seq2[From[journal.Event], error] {
	if err := j.NoteRemoved(ctx, q.Since, q.Until); err != nil {
		return func(yield func(From[journal.Event], error) bool) { yield(From[journal.Event]{}, err) }
	}
	open := func(s Source) iter.Seq2[journal.Event, error] {
		bounded, err := j.bounded(ctx, s, q)
		if err != nil {
			return func(yield func(journal.Event, error) bool) { yield(journal.Event{}, err) }
		}
		return s.Events(ctx, bounded)
	}
	all := Merge(j, open, func(a, b journal.Event) bool { return a.Time.Before(b.Time) })
	if q.Last > 0 && len(j.Sources) > 1 {
		return history.Newest(all, q.Last)
	}
	return all
}

// bounded is a query of the newest events only, as Look has it. Those of a job are found by index. All queries
// of one Journals end at the same time.
func (j *Journals) bounded(ctx context.Context, s Source, q history.Query) (history.Query, error) {
	if j.Look == 0 || q.Job != 0 {
		return q, nil
	}
	after, known := j.behind[s]
	if !known {
		var err error
		if after, err = j.lookBehind(ctx, s, q); err != nil {
			return q, err
		}
		if j.behind == nil {
			j.behind = map[Source]uint64{}
		}
		j.behind[s] = after
	}
	q.After = max(q.After, after)
	return q, nil
}

// lookBehind gives the event behind which a journal is looked at, and notes when that was; 0: all of it is.
func (j *Journals) lookBehind(ctx context.Context, s Source, q history.Query) (after uint64, err error) {
	first := func(q history.Query) (first journal.Event, err error) {
		for e, err := range s.Events(ctx, q) {
			return e, err
		}
		return first, nil
	}
	newest, err := first(history.Query{Until: q.Until, Last: 1})
	if err != nil || newest.Seq <= j.Look {
		return 0, err
	}
	after = newest.Seq - j.Look
	if kept, err := s.Kept(ctx); err != nil || kept != nil && kept.First > after {
		return 0, err
	}
	oldest, err := first(history.Query{After: after, Most: 1})
	if err != nil || oldest.Time.Before(q.Since) { // then since leaves out more
		return 0, err
	}
	if oldest.Time.After(j.LookedBack) {
		j.LookedBack = oldest.Time
	}
	return after, nil
}

// NoteRemoved tells, once, of the sources whose history does not go back to a time (the zero time: wherever it begins). Where it
// does not even go back to until, that is an error.
func (j *Journals) NoteRemoved(ctx context.Context, since, until time.Time) error {
	if since.IsZero() || j.noted {
		return nil
	}
	j.noted = true
	return j.Each(func(s Source) error {
		removed, err := s.Kept(ctx)
		switch {
		case err != nil || removed == nil || since.After(removed.Since):
			return err
		case !until.IsZero() && !until.After(removed.Since):
			return removed
		}
		j.Note(Named(s.Worker(), removed))
		return nil
	})
}

// closeTimeout is how long the end of reading waits for the worker to hear of it.
const closeTimeout = 2 * time.Second

// Stream gives the items of a stream that a request opens, page by page.
func Stream[T any](ctx context.Context, w *Worker, typ string, query any) iter.Seq2[T, error] {
	return special[T](ctx, w, typ, query, nil)
}

// special is Stream of a query with fields that a worker must say that it understands: an older one
// passes over them, and would answer as if it was asked for something else.
func special[T any](ctx context.Context, w *Worker, typ string, query any, fields []string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		var opened api.Opened
		err := w.Ask(ctx, typ, query, &opened)
		if err == nil && len(fields) > 0 && !slices.Equal(opened.Understood, fields) {
			err = fmt.Errorf("it can't select events by %s, because it is an older jobd", strings.Join(fields, " and "))
		}
		if err != nil {
			yield(none, err)
			return
		}
		cursor := map[string]any{"cursor": opened.Cursor}
		ended := false
		defer func() {
			if ended {
				return
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer cancel()
			_ = w.Ask(ctx, api.JournalClose, cursor, new(json.RawMessage)) // the worker drops it anyway, later
		}()
		for !ended {
			var page history.Page
			if err := w.Ask(ctx, api.JournalNext, cursor, &page); err != nil {
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
			ended = !page.More
			if ended && page.Error != "" {
				yield(none, said(page.Error, ""))
			}
		}
	}
}

// Worker implements Source.
func (w *Worker) Worker() string { return w.Name }

// JournalName implements Source.
func (w *Worker) JournalName(context.Context) (string, error) { return "", nil }

// Link implements Source.
func (w *Worker) Link() *Worker { return w }

// Events implements Source.
func (w *Worker) Events(ctx context.Context, q history.Query) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for e, err := range special[history.Event](ctx, w, api.JournalEvents, q, q.Special()) {
			if !yield(e.Event, err) {
				return
			}
		}
	}
}

// Jobs implements Source.
func (w *Worker) Jobs(ctx context.Context, q history.AtQuery) iter.Seq2[history.Job, error] {
	return func(yield func(history.Job, error) bool) {
		for job, err := range Stream[history.Job](ctx, w, api.JournalState, q) {
			if err == nil && !q.UnderWay && !q.Selects(job) {
				continue // an older worker tells of all
			}
			if !yield(job, err) {
				return
			}
		}
	}
}

// Audit implements Source.
func (w *Worker) Audit(ctx context.Context, anchors []journal.Anchor, progress func(seq uint64)) (history.Verdict, error) {
	lines := make([]string, len(anchors))
	for i, anchor := range anchors {
		lines[i] = anchor.String()
	}
	for step, err := range Stream[history.AuditStep](ctx, w, api.JournalVerify, map[string]any{"anchors": lines}) {
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

// Kept implements Source.
func (w *Worker) Kept(ctx context.Context) (*journal.RemovedError, error) {
	var answer history.AnchorAnswer
	err := w.Ask(ctx, api.JournalAnchor, nil, &answer)
	return answer.Kept(), err
}

// Anchor implements Source.
func (w *Worker) Anchor(ctx context.Context) (journal.Anchor, error) {
	var answer history.AnchorAnswer
	if err := w.Ask(ctx, api.JournalAnchor, nil, &answer); err != nil || answer.Seq == 0 {
		return journal.Anchor{}, err
	}
	return journal.ParseAnchor(fmt.Sprintf("%d %s", answer.Seq, answer.Hash))
}

// Follow gives a source's events behind q.After as they come, until ctx ends, over as many links as
// it takes. Between two links nothing is missed and nothing comes twice: it goes on after the last
// one given. tell is told of outages, and give takes events until it wants no more.
func Follow(ctx context.Context, s Source, q history.Query, tell func(error), give func(journal.Event) bool) error {
	lost := false
	lasting := Lasting{
		Outlives: func(err error) bool { return s.Link() != nil && Mended(err) },
		Tell:     func(err error) { tell(fmt.Errorf("%w; trying again", Named(s.Worker(), err))) },
	}
	return lasting.Run(ctx, func() (time.Duration, error) {
		if lost {
			newest, err := s.Anchor(ctx)
			if err == nil && newest.Seq < q.After {
				err = errAnother
			}
			if err == nil {
				lost = false
				tell(fmt.Errorf("%w; going on after event %d", Named(s.Worker(), errors.New("connected again")), q.After))
			}
			return 0, err
		}
		for e, err := range s.Events(ctx, q) {
			if err != nil {
				lost = true
				return 0, err
			}
			q.After = e.Seq
			if !give(e) {
				return -1, nil
			}
		}
		lost = true
		return 0, errors.New("the stream has ended")
	})
}

// rowsOnce is how many rows are asked for together.
const rowsOnce = 1000

// Rows reads what the table says of jobs, without locks, through the first worker that can, and those of
// targets that only others serve through these. Where none can, what was read is given with the error.
func Rows(ctx context.Context, workers []*Worker, ids []jobnet.Whole) (map[jobnet.Whole]history.Row, error) {
	found := make(map[jobnet.Whole]history.Row, len(ids))
	for some := range slices.Chunk(ids, rowsOnce) {
		answer, by, err := first[history.RowsAnswer](ctx, workers, api.JournalRows, map[string]any{"ids": some}, false)
		switch {
		case err != nil && len(workers) > 0 && !isSaid(err):
			return found, err
		case err != nil && allOlder(err):
			return found, errors.Join(err, errNoTable)
		case err != nil: // it may be over soon
			return found, exit.With(exit.Unknown, errors.Join(err, errNoTable))
		}
		workers = inTurn(by, workers)
		foreign := map[string][]jobnet.Whole{} // of each target
		for _, row := range answer.Rows {
			if found[row.Job] = row; !by.serves(row.Target) {
				foreign[row.Target] = append(foreign[row.Target], row.Job)
			}
		}
		if len(foreign) == 0 || by.Address == "" {
			continue
		}
		_ = share(workers, slices.Collect(maps.Keys(foreign)), func(w *Worker, targets []string) error {
			var ids []jobnet.Whole
			for _, target := range targets {
				ids = append(ids, foreign[target]...)
			}
			var answer history.RowsAnswer
			err := w.Ask(ctx, api.JournalRows, map[string]any{"ids": ids}, &answer)
			for _, row := range answer.Rows {
				found[row.Job] = row
			}
			return err
		}) // what is known already is true, too
	}
	return found, nil
}

// errNoTable says that there is nobody left to be asked about rows.
var errNoTable = errors.New("no worker can read the table now")

// inTurn is workers with the one first that is to be asked first; nil: none of them.
func inTurn(first *Worker, all []*Worker) []*Worker {
	if first == nil {
		return all
	}
	return append([]*Worker{first}, slices.DeleteFunc(slices.Clone(all), func(w *Worker) bool { return w == first })...)
}

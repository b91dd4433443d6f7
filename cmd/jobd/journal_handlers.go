package main

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/history"
	"jobd/cmd/internal/refusals"
	"jobd/cmd/internal/service"
	"jobd/journal"
	"jobd/journal/replay"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
	"jobd/store"
	"jobd/store/reconcile"
)

// journalHandlers answers the requests about the worker's journal. Each of them opens a stream and
// answers with its cursor; journal-next fetches it page by page. They read the journal's folder as
// any reader does: the worker goes on writing.
type journalHandlers struct {
	*daemon
	cursors *history.Cursors
}

// addJournal adds the journal's requests to the others.
func (d *daemon) addJournal(all map[string]jobnet.Handler) {
	h := journalHandlers{d, &history.Cursors{Tell: d.toldOfJournal}}
	all[api.JournalAnchor] = h.anchor
	all[api.JournalRows] = h.rows
	all[api.JournalEvents] = h.events
	all[api.JournalState] = h.state
	all[api.JournalVerify] = h.verify
	all[api.JournalDiff] = h.diff
	all[api.JournalReapply] = h.noted(h.reapply)
	all[api.JournalNext] = h.next
	all[api.JournalClose] = h.close
}

// noted is a handler whose refusals are part of the history.
func (h journalHandlers) noted(handler jobnet.Handler) jobnet.Handler {
	return func(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
		answer, err := handler(ctx, link, request)
		if err != nil {
			h.service.Refused(request.Type, callOf(request, request.Fields()), err)
		}
		return answer, err
	}
}

// toldOfJournal is what a client hears of a failed reading; the log has it all.
func (d *daemon) toldOfJournal(err error) string {
	level := slog.LevelWarn
	if errors.Is(err, context.Canceled) {
		level = slog.LevelDebug // the client has left
	}
	d.log.Log(context.Background(), level, "reading the journal for a client failed", "error", err)
	var refusal jobnet.Refusal
	var damaged *journal.DamagedError
	switch {
	case errors.As(err, &refusal):
		return string(refusal)
	case errors.As(err, &damaged):
		return damaged.Error()
	case errors.Is(err, context.Canceled):
		return "the journal is not read any longer: nobody asked for more"
	}
	if cause := errors.Unwrap(err); cause != nil {
		return cause.Error() // without the folder, which is nobody's business
	}
	return err.Error()
}

// owner is who may go on with a stream: who has opened it, over the same link, with the same rights.
type owner struct {
	link   *jobnet.Link
	rights string
}

func ownerOf(link *jobnet.Link, request jobnet.Request) owner {
	return owner{link, request.From.Rights()}
}

// open opens a stream over the journal for the client that asks, over its own link or its master's.
func (h journalHandlers) open(
	ctx context.Context, link *jobnet.Link, request jobnet.Request, produce func(context.Context, *replay.Reader, func(any) error) error,
) api.Opened {
	id := h.cursors.Open(ctx, ownerOf(link, request), refusals.ClientOf(request.From.By()), func(ctx context.Context, yield func(any) error) error {
		defer h.memory.reading()()
		return produce(ctx, h.journal.Reader(), yield)
	})
	return api.Opened{Name: h.worker.Name, Cursor: id}
}

// all gives the items of a sequence to yield, up to the first error of either.
func all[T any](items iter.Seq2[T, error], yield func(T) error) error {
	for item, err := range items {
		if err == nil {
			err = yield(item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// next answers with a page. It takes a while where there is little to find, so others need not wait
// for it.
func (h journalHandlers) next(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	open, err := api.NextPage.Read(request.From, request.Fields())
	if err != nil {
		return nil, err
	}
	request.Proceed()
	page, err := h.cursors.Next(ctx, ownerOf(link, request), open.Cursor)
	if errors.Is(err, history.ErrUnknown) {
		return nil, jobnet.Refusal(err.Error()).With(jobnet.CodeNotFound)
	}
	return page, err
}

func (h journalHandlers) close(_ context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	open, err := api.CloseStream.Read(request.From, request.Fields())
	if err != nil {
		return nil, err
	}
	if err := h.cursors.Close(ownerOf(link, request), open.Cursor); err != nil {
		return nil, jobnet.Refusal(err.Error()).With(jobnet.CodeNotFound)
	}
	return api.Done{}, nil
}

func (h journalHandlers) events(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	var q history.Query
	if err := api.ReadQuery(request.Data, &q); err != nil {
		return nil, err
	}
	for _, kind := range q.Kinds {
		if !slices.Contains(journal.Kinds(), kind) {
			return nil, jobnet.Refusef("unknown kind of event '%s'", kind).With(jobnet.CodeInvalid)
		}
	}
	if q.Last < 0 || q.Most < 0 {
		return nil, jobnet.Refusal("'last' and 'most' must not be below 0").With(jobnet.CodeInvalid)
	}
	if q.Result != "" && q.Result != "ok" && q.Result != "fail" {
		return nil, jobnet.Refusef("unknown result %s: allowed: ok and fail", jobnet.Excerpt(q.Result)).With(jobnet.CodeInvalid)
	}
	if err := api.HasTarget(request, q.Target); err != nil {
		return nil, err
	}
	q.Has = request.From.Has()
	opened := h.open(ctx, link, request, func(ctx context.Context, r *replay.Reader, yield func(any) error) error {
		return all(history.Events(ctx, r, q), func(e journal.Event) error { return yield(history.Event{Event: e}) })
	})
	opened.Understood = q.Special()
	return opened, nil
}

func (h journalHandlers) state(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	var q history.AtQuery
	if err := api.ReadQuery(request.Data, &q); err != nil {
		return nil, err
	}
	if q.Status != "" && !slices.Contains(history.Statuses(), q.Status) {
		return nil, jobnet.Refusef("unknown status '%s'", q.Status).With(jobnet.CodeInvalid)
	}
	if err := api.HasTarget(request, q.Target); err != nil {
		return nil, err
	}
	q.Has = request.From.Has()
	return h.open(ctx, link, request, func(ctx context.Context, r *replay.Reader, yield func(any) error) error {
		return all(history.Jobs(ctx, r, q), func(job history.Job) error { return yield(job) })
	}), nil
}

// mostAnchors bounds what a client may have the journal compared with.
const mostAnchors = 100_000

func (h journalHandlers) verify(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	var q struct {
		Anchors []string `json:"anchors"`
	}
	if err := api.ReadQuery(request.Data, &q); err != nil {
		return nil, err
	}
	if len(q.Anchors) > mostAnchors {
		return nil, jobnet.Refusef("too many anchors: at most %d are allowed", mostAnchors).With(jobnet.CodeLimit)
	}
	anchors, err := journal.ReadAnchors(strings.NewReader(strings.Join(q.Anchors, "\n")))
	if err != nil {
		return nil, jobnet.Refusal("anchors: " + err.Error()).With(jobnet.CodeInvalid)
	}
	return h.open(ctx, link, request, func(ctx context.Context, _ *replay.Reader, yield func(any) error) error {
		r, err := replay.Open(h.journalDir) // one that has kept nothing, and reads all of every file
		if err != nil {
			return err
		}
		told := time.Now()
		verdict, err := history.Audit(ctx, r, anchors, func(seq uint64) {
			if time.Since(told) >= history.PageTime/2 {
				told = time.Now()
				_ = yield(history.AuditStep{Verified: seq}) // when nobody listens any more, ctx has ended
			}
		})
		if err != nil {
			return err
		}
		return yield(history.AuditStep{Verified: verdict.Events, Verdict: &verdict})
	}), nil
}

func (h journalHandlers) anchor(ctx context.Context, _ *jobnet.Link, _ jobnet.Request) (any, error) {
	answer, err := history.Anchor(ctx, h.journal.Reader())
	if err != nil {
		return nil, jobnet.Refusal(h.toldOfJournal(err))
	}
	return answer, nil
}

func (h journalHandlers) diff(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	var q history.DiffQuery
	if err := api.ReadQuery(request.Data, &q); err != nil {
		return nil, err
	}
	return h.open(ctx, link, request, func(ctx context.Context, r *replay.Reader, yield func(any) error) error {
		return h.refusalOf(reconcile.Diff(ctx, h.own(r), func(d reconcile.Difference) error {
			item := history.Difference{
				Job: jobnet.Whole(d.Job.ID), Want: rowOf(store.Wanted(d.Job)), Found: rowOf(d.Row),
				Cause: string(d.Cause), Reason: d.Reason,
			}
			if !q.Selects(item) {
				return nil
			}
			return yield(item)
		}), "")
	}), nil
}

// own is the comparison of the worker's own journal with the table.
func (h journalHandlers) own(r *replay.Reader) reconcile.Config {
	return reconcile.Config{Journal: r, Table: h.table, Mirror: h.mirror}
}

// refusalOf is an error of a comparison as clients hear it. What the table's error was, the log
// says; that rows are unknown is journalled.
func (h journalHandlers) refusalOf(err error, by string) error {
	var table *reconcile.TableError
	var unknown *reconcile.UnknownError
	switch {
	case errors.As(err, &table):
		h.log.Warn(table.Doing+" failed", "error", table.Err)
		return errTable
	case errors.As(err, &unknown):
		h.refusals.Note(journal.Refused{Request: api.JournalReapply, Reason: unknown.Error(), By: by})
		return jobnet.Refusal(unknown.Error())
	}
	return err
}

func (h journalHandlers) reapply(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	var q history.ReapplyQuery
	if err := api.ReadQuery(request.Data, &q); err != nil {
		return nil, err
	}
	if q.Journal != "" && !filepath.IsAbs(q.Journal) {
		return nil, jobnet.Refusal("'journal' must be the absolute path of a folder on the worker's machine")
	}
	by := request.From.By()
	return h.open(ctx, link, request, func(ctx context.Context, r *replay.Reader, yield func(any) error) error {
		wish := &reconcile.Reapply{
			Config: h.own(r), Logger: h.log, Worker: h.worker.Name, Targets: h.worker.TargetNames(),
			By: by, Since: q.Since, Folder: q.Journal, DryRun: q.DryRun, AcceptUnknown: q.AcceptUnknown, Among: q.Among,
			Retried: q.Retried,
			Note:    h.noteReapplied, Visit: func(r reconcile.Result) error { return yield(reappliedOf(r)) },
		}
		if q.Journal != "" {
			lost, err := replay.Open(q.Journal)
			if err != nil {
				return jobnet.Refusef("there is no journal in folder %s of this machine that this worker can read", q.Journal)
			}
			wish.Journal, wish.Mirror = lost, nil
		}
		if q.Unknown {
			return h.refusalOf(yieldUnknown(ctx, wish, yield), by)
		}
		return h.refusalOf(wish.Run(ctx), by)
	}), nil
}

// reappliedOf is what was done with a row, in its form on the wire.
func reappliedOf(r reconcile.Result) history.Reapplied {
	return history.Reapplied{
		Job: jobnet.Whole(r.Job.ID), Found: rowOf(r.Row), Want: rowOf(store.Wanted(r.Job)),
		Did: r.Did, Reason: r.Refusal, Journal: r.Journal,
	}
}

// noteReapplied journals that rows are brought back to what a journal says.
func (h journalHandlers) noteReapplied(event journal.Reapplied) error {
	if err := h.worker.Note(event); err != nil {
		h.log.Warn("reapply could not be journalled", "error", err)
		return jobnet.Refusal("it could not be journalled: " + err.Error())
	}
	return nil
}

// unknownItem is how many rows are told in one item, so that it fits into a page.
const unknownItem = 10_000

// yieldUnknown gives the unknown rows in items; there is always one.
func yieldUnknown(ctx context.Context, wish *reconcile.Reapply, yield func(any) error) error {
	unknown, err := wish.Unknown(ctx)
	for rows, first := unknown.Rows, true; err == nil && (first || len(rows) > 0); first = false {
		item := history.Unknown{Name: unknown.Name, Begins: unknown.Begins, Removed: unknown.Removed, Rows: rows[:min(len(rows), unknownItem)]}
		rows = rows[len(item.Rows):]
		err = yield(item)
	}
	return err
}

// errTable is what clients hear of a table that fails; the log says why.
const errTable = jobnet.Refusal("the table can't be read now; the worker's log says why")

func (h journalHandlers) rows(ctx context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
	asked, err := api.LookAtRows.Read(request.From, request.Fields())
	if err != nil {
		return nil, err
	}
	request.Proceed()
	answer := history.RowsAnswer{Rows: []history.Row{}}
	if len(asked.IDs) == 0 {
		return answer, nil
	}
	ids := make([]int64, len(asked.IDs))
	for i, id := range asked.IDs {
		ids[i] = int64(id)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	done, err := h.service.Look(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := h.table.Look(ctx, ids)
	if err != nil {
		h.log.Warn("looking at rows for a client failed", "error", err)
		return nil, errTable
	}
	for _, id := range ids {
		if row := found[id]; row != nil && request.From.Targets.Reach(row.Target) {
			told := *rowOf(row)
			if !request.From.Scope.Has(principal.Read) {
				told.Owner = "" // who submits jobs waits for their ends
			}
			answer.Rows = append(answer.Rows, told)
		}
	}
	return answer, nil
}

// rowOf is a row in its form on the wire; nil of none.
func rowOf(row *store.Seen) *history.Row {
	if row == nil {
		return nil
	}
	return &history.Row{
		Job: jobnet.Whole(row.Job), Target: row.Target, Status: row.Status, Owner: row.Owner,
		Started: row.Started, Finished: row.Finished, Result: row.Result, Code: row.Code, Signal: service.SignalOf(row.Signal),
		Plan: row.Plan,
	}
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/journal/replay"

	jobnet "jobd/net"
)

// journalHandlers answers the requests about the worker's journal. Each of them opens a stream and answers with its cursor;
// journal-next fetches it page by page. They read the journal's folder as any reader does: the worker goes on writing.
type journalHandlers struct {
	*daemon
	cursors *history.Cursors
}

// withJournal adds the journal's requests to the others.
func withJournal(d *daemon, handlers map[string]jobnet.Handler) map[string]jobnet.Handler {
	h := journalHandlers{d, &history.Cursors{Tell: d.toldOfJournal}}
	handlers["journal-anchor"] = h.anchor
	handlers["journal-rows"] = h.rows
	handlers["journal-events"] = h.events
	handlers["journal-state"] = h.state
	handlers["journal-verify"] = h.verify
	handlers["journal-diff"] = h.diff
	handlers["journal-reapply"] = h.reapply
	handlers["journal-next"] = h.next
	handlers["journal-close"] = h.close
	return handlers
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

// opened is the answer to a request that opens a stream.
type opened struct {
	Name   string `json:"name"` // the worker's
	Cursor string `json:"cursor"`
}

// open opens a stream over the journal for the client at the other end of the link.
func (h journalHandlers) open(ctx context.Context, link *jobnet.Link, produce func(context.Context, *replay.Reader, func(any) error) error) (any, error) {
	id, err := h.cursors.Open(ctx, link, func(ctx context.Context, yield func(any) error) error {
		r, err := replay.Open(h.journalDir)
		if err != nil {
			return err
		}
		defer r.Close()
		r.GiveWay() // jobs come first
		defer h.memory.reading()()
		return produce(ctx, r, yield)
	})
	if err != nil {
		return nil, jobnet.Refusal(err.Error())
	}
	return opened{h.worker.Name, id}, nil
}

// next answers with a page. It takes a while where there is little to find, so others need not wait for it.
func (h journalHandlers) next(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	cursor, err := request.Fields().Text("cursor")
	if err != nil {
		return nil, err
	}
	request.Proceed()
	page, err := h.cursors.Next(ctx, link, cursor)
	if errors.Is(err, history.ErrUnknown) {
		return nil, jobnet.Refusal(err.Error())
	}
	return page, err
}

func (h journalHandlers) close(_ context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	cursor, err := request.Fields().Text("cursor")
	if err != nil {
		return nil, err
	}
	if err := h.cursors.Close(link, cursor); err != nil {
		return nil, jobnet.Refusal(err.Error())
	}
	return ok, nil
}

func (h journalHandlers) events(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	var q history.Query
	if err := decode(request, &q); err != nil {
		return nil, err
	}
	for _, kind := range q.Kinds {
		if !slices.Contains(journal.Kinds(), kind) {
			return nil, jobnet.Refusef("unknown kind of event '%s'", kind)
		}
	}
	if q.Last < 0 {
		return nil, jobnet.Refusal("'last' must not be below 0")
	}
	return h.open(ctx, link, func(ctx context.Context, r *replay.Reader, yield func(any) error) error {
		for e, err := range history.Events(ctx, r, q) {
			if err != nil {
				return err
			}
			if err := yield(history.Event{Event: e}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (h journalHandlers) state(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	var q history.AtQuery
	if err := decode(request, &q); err != nil {
		return nil, err
	}
	if q.Status != "" && !slices.Contains(history.Statuses(), q.Status) {
		return nil, jobnet.Refusef("unknown status '%s'", q.Status)
	}
	return h.open(ctx, link, func(ctx context.Context, r *replay.Reader, yield func(any) error) error {
		for job, err := range history.Jobs(ctx, r, q) {
			if err != nil {
				return err
			}
			if err := yield(job); err != nil {
				return err
			}
		}
		return nil
	})
}

// mostAnchors bounds what a client may have the journal compared with.
const mostAnchors = 100_000

func (h journalHandlers) verify(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	var q struct {
		Anchors []string `json:"anchors"`
	}
	if err := decode(request, &q); err != nil {
		return nil, err
	}
	if len(q.Anchors) > mostAnchors {
		return nil, jobnet.Refusef("too many anchors: at most %d are allowed", mostAnchors)
	}
	anchors, err := journal.ReadAnchors(strings.NewReader(strings.Join(q.Anchors, "\n")))
	if err != nil {
		return nil, jobnet.Refusal("anchors: " + err.Error())
	}
	return h.open(ctx, link, func(ctx context.Context, r *replay.Reader, yield func(any) error) error {
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
	})
}

func (h journalHandlers) anchor(ctx context.Context, _ *jobnet.Link, _ jobnet.Request) (any, error) {
	r, err := replay.Open(h.journalDir)
	if err != nil {
		return nil, jobnet.Refusal(h.toldOfJournal(err))
	}
	defer r.Close()
	answer, err := history.Anchor(ctx, r)
	if err != nil {
		return nil, jobnet.Refusal(h.toldOfJournal(err))
	}
	return answer, nil
}

// decode reads the data of a request into a struct. Fields that it does not have are ignored, as in every request.
func decode(request jobnet.Request, into any) error {
	if len(request.Data) == 0 || jobnet.TypeOf(request.Data) != "object" {
		return nil
	}
	err := json.Unmarshal(request.Data, into)
	var wrongType *json.UnmarshalTypeError
	var refusal jobnet.Refusal
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &wrongType):
		return jobnet.Refusef("'%s' must not be %s", wrongType.Field, wrongType.Value)
	case err != nil: // a time
		return jobnet.Refusal("'at', 'since' and 'until' must be times such as 2026-11-20T14:00:00Z")
	}
	return nil
}

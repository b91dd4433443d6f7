package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"jobd/cmd/internal/history"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

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

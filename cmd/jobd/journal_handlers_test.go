package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/history"
	"jobd/cmd/internal/service"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
)

// A client that leaves in the middle of a reading is nothing to warn about.
func TestAClientThatLeftIsNoWarning(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := &daemon{log: slog.New(slog.NewTextHandler(&log, nil))}
	d.toldOfJournal(fmt.Errorf("read journal: %w", context.Canceled))
	if log.Len() > 0 {
		t.Errorf("logged: %s", &log)
	}
	d.toldOfJournal(errors.New("no access"))
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("a failure is logged as %q", &log)
	}
}

// Those who only want to know what rows say wait in one row with those who want them explained: many of
// either would hold up the worker's claims.
func TestLooksAtRowsTakeTurns(t *testing.T) {
	t.Parallel()
	h := journalHandlers{daemon: &daemon{service: service.New(service.Config{})}}
	var ctx context.Context
	var err error
	for err == nil {
		var cancel func()
		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err = h.service.Look(ctx)
	}
	_, err = h.rows(ctx, nil, jobnet.Request{From: principal.Known("", "", "127.0.0.1:1"), Type: api.JournalRows, Data: []byte(`{"ids":[5]}`)})
	if jobnet.CodeOf(err) != jobnet.CodeLimit {
		t.Errorf("one look too many: %v", err)
	}
}

// A stream is of the link over which it was opened, and of who opened it: nobody else goes on with it or ends it.
func TestStreamsBelongToWhoOpenedThem(t *testing.T) {
	t.Parallel()
	h := journalHandlers{daemon: &daemon{}, cursors: new(history.Cursors)}
	link, ann := new(jobnet.Link), principal.Known("ann", "token", "127.0.0.1:1")
	asks := func(link *jobnet.Link, from *principal.Session, cursor string, handler jobnet.Handler) error {
		_, err := handler(t.Context(), link, jobnet.Request{From: from, Data: []byte(`{"cursor":"` + cursor + `"}`)})
		return err
	}
	cursor := h.cursors.Open(t.Context(), ownerOf(link, jobnet.Request{From: ann}), "ann",
		func(_ context.Context, yield func(any) error) error { return yield("item") })
	narrower := *ann
	narrower.Scope = principal.Read
	for name, other := range map[string]struct {
		link *jobnet.Link
		from *principal.Session
	}{
		"another link":                {new(jobnet.Link), ann},
		"another one over the link":   {link, principal.Known("bob", "token", "127.0.0.1:1")},
		"the same one of less rights": {link, &narrower},
	} {
		for _, handler := range []jobnet.Handler{h.next, h.close} {
			if err := asks(other.link, other.from, cursor, handler); jobnet.CodeOf(err) != jobnet.CodeNotFound || err.Error() != "unknown journal cursor" {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := asks(link, ann, cursor, h.next); err != nil {
		t.Errorf("who opened it: %v", err)
	}
}

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

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
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

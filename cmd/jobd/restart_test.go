package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jobdaemon "jobd/cmd/internal/daemon"
)

// newRestarter is one whose binary does what a script says, and that notes in the order what
// happens.
func newRestarter(t *testing.T, script string) (r *restarter, happened *[]string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "jobd")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	happened = new([]string)
	r = &restarter{
		next:     jobdaemon.Successor{Program: program, Binary: binary, Args: append(with(), "--port=7082")},
		ending:   jobdaemon.NewEnding(),
		handOver: func() { *happened = append(*happened, fmt.Sprintf("hand over, restarting %v", r.ending.Restarting())) },
		served:   func() string { return "127.0.0.1:7080" },
		log:      slog.New(slog.DiscardHandler),
	}
	return r, happened
}

// The jobs are left to the next start before the end begins, and the answer says where that will
// listen.
func TestRestartHandsOverFirst(t *testing.T) {
	t.Parallel()
	r, happened := newRestarter(t, "echo 'jobd 9.9.9'")
	next, err := r.begin(t.Context(), "somebody")
	if err != nil || next.PID != os.Getpid() || next.Address != "127.0.0.1:7082" {
		t.Errorf("next %+v, %v", next, err)
	}
	if got := strings.Join(*happened, "; "); got != "hand over, restarting false" || !r.ending.Restarting() {
		t.Errorf("%s; restarting %v", got, r.ending.Restarting())
	}
	if _, err := r.begin(t.Context(), "somebody"); err != refusedRestarting {
		t.Errorf("the second one: %v", err)
	}
}

// A restart that is refused has given up nothing, and may be asked for again.
func TestRestartIsRefused(t *testing.T) {
	t.Parallel()
	r, happened := newRestarter(t, "echo 'jobd 9.9.9'; echo 'wrong    launcher: gone'; exit 1")
	for range 2 {
		if _, err := r.begin(t.Context(), "somebody"); fmt.Sprint(err) != "not restarted: launcher: gone" {
			t.Errorf("error %v", err)
		}
	}
	r.ending.Fail(errors.New("the name is taken"))
	if _, err := r.begin(t.Context(), "somebody"); err != refusedStopping {
		t.Errorf("while it stops: %v", err)
	}
	if len(*happened) > 0 || r.ending.Restarting() {
		t.Errorf("%v; restarting %v", *happened, r.ending.Restarting())
	}
}

package store

import (
	"context"
	"errors"
	"time"

	"jobd/journal"
)

// comparing marks a context.
type comparing struct{}

// Comparing gives a context for the claims by which rows are compared with the journal: they are
// made on a server that is not confirmed, too.
func Comparing(ctx context.Context) context.Context {
	return context.WithValue(ctx, comparing{}, true)
}

// IsComparing tells whether a claim is made to compare rows with the journal.
func IsComparing(ctx context.Context) bool { return ctx.Value(comparing{}) != nil }

// CheckServer has the mirror ask which server the table is on, before it does anything else. It is
// called when a connection reached another one than was confirmed. It does not block.
func (m *Mirror) CheckServer() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unchecked = true
	if m.interrupt != nil {
		m.interrupt()
	}
}

func (m *Mirror) isUnchecked() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unchecked
}

// interruptible says how to end the waiting for events; nil: it has ended. It tells whether to wait
// at all.
func (m *Mirror) interruptible(cancel func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if cancel != nil && m.unchecked {
		return false
	}
	m.interrupt = cancel
	return true
}

// checking notes that the server is asked for now: what is told from here on needs another look.
func (m *Mirror) checking() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unchecked = false
}

// tableError is the table's part in the failure of a comparison: it is tried again.
type tableError struct{ error }

// Unwrap gives the table's error.
func (e tableError) Unwrap() error { return e.error }

// meetServer finds out, where that is not known, which server the table is on, and lets claims be
// made there once its rows were compared with the journal. New events wait for that.
//
// That it is done is appended before claims are let on. Killed before, the next start does it
// again; killed after, the next start finds the server that the journal names.
func (m *Mirror) meetServer(ctx context.Context) error {
	var retry *Retry
	for m.isUnchecked() {
		err := m.meet(ctx)
		var failed tableError
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.As(err, &failed):
			return err
		case IsAway(err):
			m.setAway(true)
		}
		if retry == nil {
			retry = NewRetry(m.Logger, "compare the table's server with the journal")
		}
		m.CheckServer()
		if err := retry.Wait(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// meet asks for the server once, and goes back where it is another one.
func (m *Mirror) meet(ctx context.Context) error {
	m.checking()
	id, err := m.Table.Server(ctx)
	if err != nil {
		return tableError{err}
	}
	switch {
	case id == m.Server:
	case m.Server == "":
		err = m.append(ctx, []journal.Draft{{Payload: journal.Server{Server: id}}})
	default:
		err = m.goBack(ctx, id)
	}
	if err != nil {
		return err
	}
	m.Table.Confirm(id)
	m.Server = id
	if !m.setAway(false) && !m.confirmed && id != "" && m.OnReturn != nil {
		m.OnReturn()
	}
	m.confirmed = true
	return nil
}

// goBack brings the rows of a server that the journal does not know up to what the journal says of
// the last minutes.
func (m *Mirror) goBack(ctx context.Context, id string) error {
	m.Logger.Warn("the table is on another server; its rows are compared with the journal before anything is claimed",
		"server", id, "before", m.Server)
	m.confirmed = false
	if m.back == nil || m.back.server != id {
		m.back = newComparison(m, id)
	}
	if err := m.back.run(ctx); err != nil {
		return err
	}
	if err := m.waitForOthers(ctx); err != nil {
		return err
	}
	now, err := m.Table.Server(ctx)
	if err != nil {
		return tableError{err}
	}
	if now != id {
		return tableError{errors.New("it changed again, to " + now)}
	}
	met := journal.Server{Server: id, Before: m.Server, Mended: len(m.back.mended), Left: len(m.back.left)}
	if err := m.append(ctx, []journal.Draft{{Payload: met}}); err != nil {
		return err
	}
	m.Logger.Warn("the rows of the last minutes were compared with the journal",
		"server", id, "mended", met.Mended, "left", met.Left)
	m.back = nil
	return nil
}

// waitForOthers waits until other workers have had their time to compare their rows.
func (m *Mirror) waitForOthers(ctx context.Context) error {
	timer := time.NewTimer(time.Until(m.back.met.Add(m.Together)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

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

// confirmServer finds out, where that is not known, which server the table is on, and lets claims
// be made there once its rows were compared with the journal. New events wait for that.
//
// That it is done is appended before claims are let on. Killed before, the next start does it
// again; killed after, the next start finds the server that the journal names.
func (m *Mirror) confirmServer(ctx context.Context) error {
	var retry *Retry
	for m.isDue() {
		err := m.confirmOnce(ctx)
		var failed tableError
		switch {
		case err == nil:
			if retry != nil {
				retry.Over()
			}
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.As(err, &failed):
			return err
		case IsAway(err):
			m.setAway(err)
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

// confirmOnce asks for the server once, and goes back where it is another one.
func (m *Mirror) confirmOnce(ctx context.Context) error {
	m.begun()
	id, err := m.Table.Server(ctx)
	if err != nil {
		return tableError{err}
	}
	switch {
	case id == m.Server:
	case m.Server == "":
		err = m.append(ctx, []journal.Draft{{Payload: journal.Server{Server: id}}})
	default:
		err = m.compareServer(ctx, id)
	}
	if err != nil {
		return err
	}
	m.Table.Confirm(id)
	m.Server = id
	if !m.setAway(nil) && !m.confirmed && id != "" && m.OnReturn != nil {
		m.OnReturn()
	}
	m.confirmed = true
	return nil
}

// compareServer brings the rows of a server that the journal does not know up to what the journal
// says of the last minutes.
func (m *Mirror) compareServer(ctx context.Context, id string) error {
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
	if m.back.others {
		if err := m.back.run(ctx); err != nil {
			return err
		}
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

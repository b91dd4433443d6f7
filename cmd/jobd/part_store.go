package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/exec/runner/proc"
	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/eventlog"
	"jobd/journal/index"
	"jobd/journal/replay"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/reconcile"
	"jobd/store/sqlite"
)

// What is kept: the journal, and the table.

// journalPart is the journal, and the room on its disk that is kept for ending what has begun.
type journalPart struct {
	log        logger
	journalDir string
	journal    *eventlog.Log
	reserve    *eventlog.Reserve
	index      *index.Index // nil: none is kept
}

// openJournal finds or makes the journal's folder, locks it and verifies what is in it.
func (r *root) openJournal() (*journalPart, error) {
	dir, err := r.journal.makeDir(r.name, os.Getenv)
	if err != nil {
		return nil, err
	}
	config := r.journal.Log
	config.Dir, config.Logger, config.Committed = dir, r.log, r.committed
	opened, err := eventlog.Open(context.Background(), config)
	if err != nil {
		return nil, cmp.Or(conf.Closed(err, dir), err)
	}
	opened.View(func(s *journal.State) {
		if s.Name == journal.MasterName {
			err = fmt.Errorf("journal %s is a master's: the worker needs a folder of its own (key journal_dir)", dir)
		}
	})
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	reserve, err := eventlog.OpenReserve(dir, r.journal.MinFree)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	p := &journalPart{log: r.log, journalDir: dir, journal: opened, reserve: reserve}
	if r.journal.index {
		p.index = index.New(index.Config{Dir: dir, Log: opened, Logger: r.log, Room: func() error {
			_, why := reserve.Low()
			return why
		}})
	} else if err := index.Remove(dir); err != nil { // it would be behind, and take room
		r.log.Warn("the index of jobs, which is not kept any more, can't be removed", "error", err)
	}
	return p, nil
}

// runIndex keeps the index, where there is one.
func (p *journalPart) runIndex(ctx context.Context) error {
	if p.index == nil {
		<-ctx.Done()
		return nil
	}
	return p.index.Run(ctx)
}

func (p *journalPart) close() error { return errors.Join(p.reserve.Close(), p.journal.Close()) }

// newest is the journal's newest event.
func (p *journalPart) newest() (seq uint64) {
	p.journal.View(func(s *journal.State) { seq = s.Seq })
	return seq
}

// runners are those that jobs under way were announced for, each once.
func (p *journalPart) runners() []string {
	names := []string{}
	p.journal.View(func(s *journal.State) {
		for _, job := range s.Unfinished() {
			if job.Runner != "" && !slices.Contains(names, job.Runner) {
				names = append(names, job.Runner)
			}
		}
	})
	return names
}

// look has the journal's history looked at, for what about says; where it can't be read the log tells.
func (p *journalPart) look(about string, look func(*replay.Reader) error) {
	if err := look(p.journal.Reader()); err != nil {
		p.log.Warn("the journal's history can't be read", "about", about, "error", err)
	}
}

// lastStart is when a job of a target was started last, where that was after a time; else zero.
func (p *journalPart) lastStart(target string, after time.Time) (at time.Time) {
	newest := journal.Filter{Target: target, Kinds: []journal.Kind{journal.KindRunning}, Since: after, Last: 1}
	p.look("the last start of target "+target, func(r *replay.Reader) error {
		for e, err := range r.Events(context.Background(), newest) {
			if err != nil {
				return err
			}
			at = e.Time
		}
		return nil
	})
	return at
}

// knows tells whether the journal's history has a claim of a job, by its token; and, where it was given
// up and never started, that claim.
func (p *journalPart) knows(ctx context.Context, job int64, token string) (known bool, unstarted *journal.Accepted) {
	p.look(fmt.Sprintf("job %d", job), func(r *replay.Reader) (err error) {
		unstarted, known, err = reconcile.Claimed(ctx, r, job, token)
		return err
	})
	if known { // it was started
		return true, nil
	}
	return unstarted != nil, unstarted
}

// How far a start looks back for rows that were ignored or set back, and may not have been: the
// transaction of either is over within a minute or so, or its row is asked by the worker itself,
// for as long as it runs.
const (
	doubtfulEvents = 20_000
	mostIgnored    = 1000
)

// doubtful gives the rows of which the journal says, near its end, that they are ignored, or that
// they were set back. The worker may have been killed before that was committed.
func (p *journalPart) doubtful() (rows map[int64]journal.Payload) {
	newest := p.newest()
	if newest == 0 {
		return nil
	}
	p.look("rows that were ignored or set back last", func(r *replay.Reader) (err error) {
		rows, err = doubtfulBehind(context.Background(), r, newest-min(newest, doubtfulEvents))
		return err
	})
	return rows
}

// doubtfulBehind gives the rows that are ignored, or were set back, by an event behind another, and
// of which nothing else is known since.
func doubtfulBehind(ctx context.Context, r *replay.Reader, after uint64) (rows map[int64]journal.Payload, err error) {
	first, err := r.First(ctx)
	if err != nil {
		return nil, err
	}
	state := journal.State{KeepEnded: true}
	f := journal.Filter{
		After: max(after, first-1),
		Kinds: []journal.Kind{journal.KindAccepted, journal.KindIgnored, journal.KindRetried, journal.KindPlanned, journal.KindConflict},
	}
	for e, err := range r.Events(ctx, f) {
		if err != nil {
			return nil, err
		}
		state.Seq = e.Seq - 1 // the events between are not needed
		conflict, _ := e.Payload.(journal.Conflict)
		takenBack := conflict.Wanted == journal.WantedRetried && state.Job(e.Job).Status == journal.StatusRetried
		if e.Kind() == journal.KindAccepted || takenBack {
			delete(state.Jobs, e.Job)
			continue
		}
		_ = state.Apply(e) // a conflict of something else changes nothing
	}
	rows, ignored := make(map[int64]journal.Payload), 0
	for id, job := range state.Jobs {
		switch {
		case job.Status == journal.StatusRetried:
			rows[id] = *job.Retried
		case job.Status == journal.StatusIgnored && ignored < mostIgnored:
			rows[id] = journal.Ignored{}
			ignored++
		}
	}
	return rows, nil
}

// wasManual tells whether a row was to be run by hand only: the newest event that tells where it came
// from, or was set back to, says so. Events of older versions tell of ignored rows only that their
// targets were not served, which only those are that were manual.
func (p *journalPart) wasManual(ctx context.Context, job int64) bool {
	newest, found, err := p.journal.Newest(ctx, job, journal.KindAccepted, journal.KindIgnored, journal.KindRetried)
	if err != nil || !found {
		return false
	}
	switch of := newest.(type) {
	case journal.Accepted:
		return of.Manual
	case journal.Ignored:
		return of.Manual || strings.HasPrefix(of.Reason, "target '")
	case journal.Retried:
		return of.To == journal.RowManual
	}
	return false
}

// checkTimeout bounds how long a start waits for a table that does not answer; it then goes on
// without.
const checkTimeout = 3 * time.Second

// tablePart is the jobs table, and what the start has found out about it.
type tablePart struct {
	log     logger
	table   store.Table
	reached bool // it answered when it was opened
}

// openTable opens the table and examines it. A table that can't be reached is waited for later; one
// that can't be used, or not for these targets, is an error.
func (r *root) openTable(journal *journalPart) (*tablePart, error) {
	table, err := r.newTable(journal.journalDir)
	if err != nil {
		return nil, err
	}
	p := &tablePart{log: r.log, table: table}
	if err := errors.Join(p.check(), p.checkTargets(r.config)); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (r *root) newTable(journalDir string) (store.Table, error) {
	if r.store.kind == storeSQLite {
		config := r.store.sqliteConfig()
		config.Submits = r.submits()
		config.Logger, config.OnServer = r.log, r.notices.serverMet
		return sqlite.New(config)
	}
	config := r.store.mysql
	config.Place = placeOf(journalDir)
	config.Logger, config.OnServer, config.OnLost = r.log, r.notices.serverMet, r.notices.tableLost
	return mysql.New(failTable(journalDir, config))
}

// placeOf names the lock of the journal's folder, which this process has: no other process that lives
// has the same in this boot, be it one with a copy of the journal. "": nobody knows.
func placeOf(journalDir string) string {
	var lock unix.Stat_t
	boot, err := proc.BootID()
	if err != nil || unix.Stat(filepath.Join(journalDir, archive.LockFile), &lock) != nil {
		return ""
	}
	return fmt.Sprintf("%s %d.%d", boot, lock.Dev, lock.Ino)
}

// sqliteConfig is where the table is.
func (c *storeConfig) sqliteConfig() sqlite.Config {
	return sqlite.Config{
		Path: c.sqlitePath, Table: c.mysql.Table, ClaimColumn: c.mysql.ClaimColumn, Uses: c.mysql.Uses, Worker: c.mysql.Worker,
	}
}

func (p *tablePart) close() error { return p.table.Close() }

// check examines the table, if it can be reached.
func (p *tablePart) check() error {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	err := p.table.Check(ctx)
	var unusable *store.Unusable
	if errors.As(err, &unusable) {
		return err
	}
	if err != nil {
		p.log.Warn("the table can't be reached; serving without it until it can", "error", err)
	}
	p.reached = err == nil
	return nil
}

// checkTargets refuses targets whose names the table can't tell apart or can't hold. Where the
// table does not answer, the worker finds that out later, and claims nothing for them.
func (p *tablePart) checkTargets(c config) error {
	if !p.reached {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	names := slices.Sorted(maps.Keys(c.targets))
	unfit, err := p.table.Names(ctx, names)
	if err != nil {
		p.log.Warn("the table could not be asked about the targets' names; the worker asks again", "error", err)
		return nil
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(unfit)) {
		errs = append(errs, fmt.Errorf("%s: %q can't be served: %s", c.read.Place("targets."+name), name, unfit[name]))
	}
	return exit.With(exit.Usage, errors.Join(errs...))
}

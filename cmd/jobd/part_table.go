package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/exit"
	"jobd/exec/runner/proc"
	"jobd/journal/archive"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/sqlite"
)

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

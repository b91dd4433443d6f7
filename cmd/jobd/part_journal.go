package main

import (
	"cmp"
	"context"
	"errors"
	"os"

	"jobd/cmd/internal/conf"
	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/replay"
	"jobd/store/reconcile"
)

// journalPart is the journal, and the room on its disk that is kept for ending what has begun.
type journalPart struct {
	log        logger
	journalDir string
	journal    *eventlog.Log
	reserve    *eventlog.Reserve
}

// openJournal finds or makes the journal's folder, locks it and verifies what is in it.
func (r *root) openJournal() (*journalPart, error) {
	dir, err := r.journal.makeDir(r.name, os.Getenv)
	if err != nil {
		return nil, err
	}
	opened, err := eventlog.Open(context.Background(), eventlog.Config{
		Dir: dir, Logger: r.log, Committed: r.committed(),
		SegmentSize: r.journal.segmentSize, SegmentAge: r.journal.segmentAge,
		Retention: r.journal.retention, ArchiveDir: r.journal.archiveDir,
	})
	if err != nil {
		return nil, cmp.Or(conf.Closed(err, dir), err)
	}
	reserve, err := eventlog.OpenReserve(dir, r.journal.minFree)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return &journalPart{r.log, dir, opened, reserve}, nil
}

func (p *journalPart) close() error { return errors.Join(p.reserve.Close(), p.journal.Close()) }

// read opens the journal to be read, beside whoever writes it.
func (p *journalPart) read() (*replay.Reader, error) { return replay.Open(p.journalDir) }

// newest is the journal's newest event.
func (p *journalPart) newest() (seq uint64) {
	p.journal.View(func(s *journal.State) { seq = s.Seq })
	return seq
}

// lastServer is the database server that the table was last found on, as far as the journal knows.
func (p *journalPart) lastServer() (server string) {
	p.journal.View(func(s *journal.State) { server = s.Server })
	return server
}

// knows tells whether the journal's history has a claim of a job, by its token; and, where it was given
// up and never started, that claim.
func (p *journalPart) knows(ctx context.Context, job int64, token string) (known bool, unstarted *journal.Accepted) {
	r, err := replay.Open(p.journalDir)
	if err != nil {
		p.log.Warn("the journal's history can't be read", "error", err)
		return false, nil
	}
	defer r.Close()
	claim, started, err := reconcile.Claimed(ctx, r, job, token)
	if err != nil {
		p.log.Warn("the journal's history can't be read", "job", job, "error", err)
	}
	if started {
		return true, nil
	}
	return claim != nil, claim
}

package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/journal/replay"
)

// source is one worker's journal, wherever it is read: from its folder, or through the worker.
type source interface {
	// worker is the worker's name, "" where only one journal is read and there is nothing to tell apart.
	worker() string
	// owner is the worker's name as the journal tells it, or else its folder; "" where nobody but the link tells.
	owner() string
	// journalName is the worker's name as the journal tells it; "" where it tells none, or is not asked.
	journalName(ctx context.Context) (string, error)
	// link is the worker through which the journal is read; nil where it is read from its folder.
	link() *remote
	// events gives the selected events, oldest first. It ends at the first error.
	events(ctx context.Context, q history.Query) iter.Seq2[journal.Event, error]
	// jobs gives every job as it stood at a time, in the order of replay.Reader.Jobs.
	jobs(ctx context.Context, q history.AtQuery) iter.Seq2[history.Job, error]
	// audit verifies the journal and compares it with anchors.
	audit(ctx context.Context, anchors []journal.Anchor, progress func(seq uint64)) (history.Verdict, error)
	// anchor is the newest event's number and hash.
	anchor(ctx context.Context) (journal.Anchor, error)
	// kept says what retention has removed; nil: nothing.
	kept(ctx context.Context) (*journal.RemovedError, error)
}

// folder is a journal in a folder of this machine.
type folder struct {
	reader *replay.Reader
	dir    string // as it was given
	own    string // the worker's name, as the journal has it; of a journal that does not tell, the folder's
	name   string // the same, where several are read, made to differ from the others'; else ""
}

func (f folder) worker() string { return f.name }

func (f folder) owner() string { return f.own }

func (f folder) journalName(ctx context.Context) (string, error) { return f.reader.Name(ctx) }

func (f folder) link() *remote { return nil }

func (f folder) events(ctx context.Context, q history.Query) iter.Seq2[journal.Event, error] {
	return history.Events(ctx, f.reader, q)
}

func (f folder) jobs(ctx context.Context, q history.AtQuery) iter.Seq2[history.Job, error] {
	return history.Jobs(ctx, f.reader, q)
}

func (f folder) audit(ctx context.Context, anchors []journal.Anchor, progress func(seq uint64)) (history.Verdict, error) {
	return history.Audit(ctx, f.reader, anchors, progress)
}

func (f folder) anchor(ctx context.Context) (journal.Anchor, error) { return f.reader.Anchor(ctx) }

func (f folder) kept(ctx context.Context) (*journal.RemovedError, error) { return f.reader.Kept(ctx) }

// journals are the sources that a command reads, and what could not be read.
type journals struct {
	sources []source
	remotes []*remote // the sources again, where they are read through workers
	failed  []error   // workers that could not be asked, or failed on the way; the others go on

	note  func(error) // tells what is worth knowing, and no failure
	noted bool
}

// read opens what the flags name (folders, else a worker or a master), has it read, and tells what failed.
func (p *program) read(ctx context.Context, dirs []string, use func(ctx context.Context, j *journals) error) error {
	if len(dirs) > 0 {
		if p.giveWay != nil {
			p.giveWay()
		}
		return p.readFolders(ctx, dirs, use)
	}
	return p.linked(ctx, func(ctx context.Context, client *client) error {
		if err := client.expect(ctx); err != nil {
			return err
		}
		j, err := p.remotes(ctx, client)
		if err != nil {
			return err
		}
		return j.use(ctx, use)
	})
}

// readFolders has folders read, whatever daemon is configured.
func (p *program) readFolders(ctx context.Context, dirs []string, use func(ctx context.Context, j *journals) error) error {
	j := &journals{note: p.note}
	var folders []folder
	for i, dir := range dirs {
		if slices.ContainsFunc(dirs[:i], func(other string) bool { return filepath.Clean(other) == filepath.Clean(dir) }) {
			return wrongUsage("--journal %s is given twice", dir)
		}
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return fmt.Errorf("open journal %s: this is not a folder", dir)
		}
		r, err := replay.Open(dir)
		if err != nil {
			return err
		}
		defer r.Close()
		folders = append(folders, folder{reader: r, dir: dir, own: ownerOf(ctx, r, dir)})
	}
	if len(folders) > 1 {
		p.tellApart(folders)
	}
	for _, f := range folders {
		j.sources = append(j.sources, f)
	}
	return j.use(ctx, use)
}

// ownerOf is the name of the worker whose journal a folder holds. One that does not tell, or is damaged, which its reader will
// notice, has the folder's.
func ownerOf(ctx context.Context, r *replay.Reader, dir string) string {
	if name, err := r.Name(ctx); err == nil && name != "" {
		return name
	}
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute
	}
	return filepath.Base(dir)
}

// tellApart gives folders their names. Where two journals are of one name, as an archive and what it was cut off from are, or
// those of two hosts whose workers were named alike, each bears its folder too, and that is said.
func (p *program) tellApart(folders []folder) {
	count := make(map[string]int)
	for _, f := range folders {
		count[f.own]++
	}
	for i := range folders {
		f := &folders[i]
		if f.name = f.own; count[f.own] > 1 {
			f.name = fmt.Sprintf("%s (%s)", f.own, f.dir)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if n := count[name]; n > 1 {
			p.note(fmt.Errorf("%d journals are of worker '%s': they are told apart by their folders", n, clean(name)))
		}
	}
}

// use has the journals read; what failed on the way is told with the rest.
func (j *journals) use(ctx context.Context, read func(ctx context.Context, j *journals) error) error {
	err := read(ctx, j)
	return errors.Join(why(ctx, err), errors.Join(j.failed...))
}

// named tells whether lines need the worker's name.
func (j *journals) named() bool { return len(j.sources) > 0 && j.sources[0].worker() != "" }

// fail notes why a source gives no more. One alone is the command's own failure; of several the others go on.
func (j *journals) fail(s source, err error) error {
	if s.worker() == "" || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	j.failed = append(j.failed, fmt.Errorf("worker '%s': %w", clean(s.worker()), err))
	return nil
}

// each has all sources visited, one after the other.
func (j *journals) each(visit func(source) error) error {
	for _, s := range j.sources {
		if err := visit(s); err != nil {
			if err := j.fail(s, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// from is an item and the source that it is from.
type from[T any] struct {
	source source
	item   T
}

// merge gives the items of all sources in one order; each source's own are in it. It holds one item of each.
func merge[T any](j *journals, open func(source) iter.Seq2[T, error], before func(a, b T) bool) iter.Seq2[from[T], error] {
	return func(yield func(from[T], error) bool) {
		type head struct {
			from[T]
			next func() (T, error, bool)
		}
		var heads []*head
		advance := func(h *head) (more bool, err error) {
			item, err, ok := h.next()
			if ok && err != nil {
				return false, j.fail(h.source, err)
			}
			h.item = item
			return ok, nil
		}
		for _, s := range j.sources {
			next, stop := iter.Pull2(open(s))
			defer stop()
			h := &head{from[T]{source: s}, next}
			more, err := advance(h)
			if err != nil {
				yield(from[T]{}, err)
				return
			}
			if more {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			first := 0
			for i := range heads {
				if before(heads[i].item, heads[first].item) {
					first = i
				}
			}
			if !yield(heads[first].from, nil) {
				return
			}
			more, err := advance(heads[first])
			if err != nil {
				yield(from[T]{}, err)
				return
			}
			if !more {
				heads = append(heads[:first], heads[first+1:]...)
			}
		}
	}
}

// events gives the selected events of all sources, merged by time; with q.Last the newest of all.
func (j *journals) events(ctx context.Context, q history.Query) iter.Seq2[from[journal.Event], error] {
	err := inOrder(q.Since, q.Until)
	if err == nil {
		err = j.noteRemoved(ctx, q.Since, q.Until)
	}
	if err != nil {
		return func(yield func(from[journal.Event], error) bool) { yield(from[journal.Event]{}, err) }
	}
	all := merge(j, func(s source) iter.Seq2[journal.Event, error] { return s.events(ctx, q) },
		func(a, b journal.Event) bool { return a.Time.Before(b.Time) })
	if q.Last > 0 && len(j.sources) > 1 {
		return history.Newest(all, q.Last)
	}
	return all
}

// noteRemoved tells, once, of the sources whose history does not go back to a time (the zero time: wherever it begins). Where it
// does not even go back to until, that is an error.
func (j *journals) noteRemoved(ctx context.Context, since, until time.Time) error {
	if since.IsZero() || j.noted {
		return nil
	}
	j.noted = true
	return j.each(func(s source) error {
		removed, err := s.kept(ctx)
		switch {
		case err != nil || removed == nil || since.After(removed.Since):
			return err
		case !until.IsZero() && !until.After(removed.Since):
			return removed
		}
		j.note(named(s, removed))
		return nil
	})
}

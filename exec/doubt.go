package exec

import (
	"context"
	"maps"
	"slices"
	"time"

	"jobd/journal"
)

// doubt is a claim of which it is not known whether it was won, or that was not and is to be given up; or the same of
// a row that was to be ignored.
type doubt struct {
	journal.Accepted
	ignored bool    // no claim: the row was to be ignored
	former  bool    // by a former run of the worker
	started bool    // if it was won, it may have been started, by a runner that is gone
	lost    string  // not "": it is to be given up, and this is why
	rest    backoff // of the question whether it was won
	alone   bool    // the table is asked about it by itself
}

// How long it takes until the table is asked once more about a claim whose row somebody holds.
const (
	firstDoubt = 50 * time.Millisecond
	longDoubt  = 5 * time.Second
	mostDoubts = 500 // claims that the table is asked about at a time
)

// doubt remembers claims whose commit may or may not have happened, or, where lost tells why, certainly did not.
func (w *Worker) doubt(c claimed, lost func(id int64) string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range c.events {
		d := &doubt{}
		switch p := e.Payload.(type) {
		case journal.Accepted:
			d.Accepted = p
		case journal.Ignored:
			d.ignored = true
		default:
			continue
		}
		if lost != nil {
			d.lost = lost(e.Job)
		}
		w.doubtful[e.Job] = d
	}
	w.withdraw(&c)
	if len(w.doubtful) > 0 {
		w.wake()
	}
}

// resolve asks the table which of the claims in doubt were won: the row of one
// that was bears the claim's token, or is ignored. The others are given up. Rows that somebody holds stay in doubt and hold
// up nothing else.
func (w *Worker) resolve(ctx context.Context) error {
	if ids := w.dueDoubts(time.Now()); len(ids) > 0 {
		rows, locked, err := w.Table.Rows(ctx, ids)
		w.judge(ids, rows, locked, err)
		if concernsAll(ctx, err) {
			return err
		}
	}
	return w.giveUp()
}

// dueDoubts lists the claims that the table is to be asked about in one go.
func (w *Worker) dueDoubts(now time.Time) (ids []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, d := range w.doubtful {
		switch {
		case d.lost != "" || d.rest.due.After(now):
		case d.alone:
			return []int64{id}
		case len(ids) < mostDoubts:
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// judge takes in what the table said of claims in doubt.
func (w *Worker) judge(ids []int64, rows []journal.Row, locked []int64, err error) {
	found := make(map[int64]journal.Row, len(rows))
	for _, row := range rows {
		found[row.Job] = row
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		d, row := w.doubtful[id], found[id]
		switch {
		case err != nil:
			d.alone = len(ids) > 1 || d.alone
			d.rest.grow(firstDoubt, longDoubt)
		case slices.Contains(locked, id):
			d.rest.grow(firstDoubt, longDoubt)
		case d.ignored && row.Status == journal.RowIgnored:
			delete(w.doubtful, id)
			w.unskip(id)
		case d.ignored && d.former && row.Status == "": // what is ignored may be deleted
			delete(w.doubtful, id)
			w.unskip(id)
		case d.ignored && d.former:
			d.lost = "when the worker was started again the row was " + row.Status
		case d.ignored:
			d.lost = notIgnored(row)
		case !underWay(row) || row.Owner != d.Token:
			d.lost = "the claim was not won"
		default:
			delete(w.doubtful, id)
			w.takeWon(id, d)
		}
	}
}

// takeWon goes on with a job whose claim turned out to be won. The lock is held.
func (w *Worker) takeWon(id int64, d *doubt) {
	if d.started {
		w.lose(w.newJob(id, d.Accepted, 1), killedWhileItRan)
	} else {
		w.queueClaim(id, d.Accepted)
	}
	w.unskip(id)
}

// underWay tells whether a row is one that a worker has.
func underWay(row journal.Row) bool {
	return row.Status == journal.RowAccepted || row.Status == journal.RowRunning
}

// notIgnored is why an ignored event is taken back whose row was found otherwise.
func notIgnored(row journal.Row) string {
	if row.Status == "" {
		return "the row is gone"
	}
	return "the update was not committed: the row is " + row.Status
}

// givesUp takes back what was journalled of a row whose update was not committed; nothing where the event is of another kind.
func givesUp(e journal.Event, why string) (drafts []journal.Draft) {
	switch p := e.Payload.(type) {
	case journal.Accepted:
		drafts = append(drafts, released(e.Job, p, why))
	case journal.Ignored:
		drafts = append(drafts, unignored(e.Job, why))
	}
	return drafts
}

// unignored says that a row was not ignored.
func unignored(id int64, why string) journal.Draft {
	return journal.Draft{Job: id, Payload: journal.Conflict{Wanted: journal.RowIgnored, Reason: why}}
}

// draft gives it up. The lock is not needed: nothing changes a doubt that is lost.
func (d *doubt) draft(id int64) journal.Draft {
	if d.ignored {
		return unignored(id, d.lost)
	}
	return released(id, d.Accepted, d.lost)
}

// giveUp journals that claims were not won.
func (w *Worker) giveUp() error {
	w.mu.Lock()
	lost := maps.Clone(w.doubtful)
	w.mu.Unlock()
	maps.DeleteFunc(lost, func(_ int64, d *doubt) bool { return d.lost == "" })
	if len(lost) == 0 {
		return nil
	}
	var drafts []journal.Draft
	for _, id := range slices.Sorted(maps.Keys(lost)) {
		drafts = append(drafts, lost[id].draft(id))
	}
	_, err := w.append(drafts...)
	if illegal(err) != nil { // the mirror has found some of them lost already
		for _, d := range drafts {
			if _, err = w.append(d); err != nil && illegal(err) == nil {
				return err
			}
			w.givenUp(d.Job)
		}
		return nil
	}
	if err != nil {
		return err
	}
	for id := range lost {
		w.givenUp(id)
	}
	return nil
}

// givenUp forgets a claim whose release is journalled.
func (w *Worker) givenUp(id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.doubtful[id]
	delete(w.doubtful, id)
	w.unskip(id)
	w.pollNamed(d.Target)
	if client, waits := w.waiters[id]; waits {
		client.refuse(id, d.lost)
	}
}

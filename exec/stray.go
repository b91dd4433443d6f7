package exec

import (
	"context"
	"time"

	"jobd/journal"
)

// A worker with a new journal finds rows that bear the mark which it would have chosen. They may be
// its own, of a journal that was lost; or those of a worker whose name has the same hash, or the
// same name, and which is down, or lives and can't reach the table at the moment. Nobody can tell
// them apart. So the worker takes another mark, and leaves these rows alone until nobody has held
// their mark for Config.LostAfter. A worker that comes back in that time holds it again.

// stray is a mark of the worker's name that rows bear and the journal does not know.
type stray struct {
	mark string
	free time.Time // since when nobody was seen to hold it; zero: somebody was
}

// strays are the marks to watch. Only the claim loop knows them.
type strays struct {
	listed bool
	marks  []stray
	due    time.Time // of the next look; zero: none
}

// How often strays are looked at, beside a quarter of Config.LostAfter.
const (
	oftenStray = 100 * time.Millisecond
	rareStray  = 30 * time.Second
)

// watchStrays looks at strays, where that is due, and has the rows of one taken up that nobody has
// held for long enough. Its error concerns everything.
func (w *Worker) watchStrays(ctx context.Context) error {
	s := &w.claims.strays
	if !s.listed {
		*s = strays{listed: true, marks: w.formerMarks()}
	}
	if len(s.marks) == 0 || s.due.After(time.Now()) || w.claims.survey.busy() {
		return nil
	}
	s.due = time.Now().Add(min(max(w.LostAfter/4, oftenStray), rareStray))
	left := s.marks[:0]
	for _, one := range s.marks {
		lost, err := w.watchStray(ctx, &one)
		if concernsAll(ctx, err) {
			return err
		}
		if err != nil || len(lost) > 0 {
			left = append(left, one)
		}
	}
	if s.marks = left; len(left) == 0 {
		s.due = time.Time{}
	}
	return nil
}

// formerMarks are the marks of this worker's name that it passed by.
func (w *Worker) formerMarks() (marks []stray) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range mostMarks {
		mark := markOf(w.Name, n)
		if mark == w.identity.mark {
			return marks
		}
		marks = append(marks, stray{mark: mark})
	}
	return nil // the journal's mark is of another name
}

// watchStray looks at the rows of one mark, and tells which of them the journal does not know. They
// are given to the survey when their time has come.
func (w *Worker) watchStray(ctx context.Context, one *stray) (lost map[int64]string, err error) {
	lost, upTo, err := w.unknownRows(ctx, one.mark)
	if err != nil || len(lost) == 0 {
		return nil, err
	}
	holder, err := w.Table.Holder(ctx, "mark:"+one.mark)
	switch {
	case err != nil:
		return lost, err
	case holder != "":
		one.free = time.Time{}
		return lost, nil
	case one.free.IsZero():
		one.free = time.Now()
		w.Logger.Warn("rows bear a mark of this worker's name, and its journal does not know them: they are left alone for now",
			"rows", len(lost), "mark", one.mark, "until nobody has held the mark for", w.LostAfter)
	}
	if time.Since(one.free) < w.LostAfter {
		return lost, nil
	}
	if holder, err = w.Table.Hold(ctx, "mark:"+one.mark); err == nil && holder == "" {
		w.claims.survey.suspect(lost, upTo, w.Mirror.Tried(upTo))
	}
	return lost, err
}

// unknownRows are the rows under way that bear a mark, and a claim that the journal does not hold
// as live.
func (w *Worker) unknownRows(ctx context.Context, mark string) (unknown map[int64]string, upTo uint64, err error) {
	rows, err := w.Table.UnderWay(ctx, "@"+mark, nil)
	if err != nil {
		return nil, 0, err
	}
	unknown = make(map[int64]string)
	w.Recorder.View(func(state *journal.State) {
		upTo = state.Seq
		for _, row := range rows {
			if !live(state.Job(row.Job), row.Owner) {
				unknown[row.Job] = row.Owner
			}
		}
	})
	return unknown, upTo, nil
}

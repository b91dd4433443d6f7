package rule

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"jobd/journal"
	"jobd/store"
)

// Query makes a query for a table, Row reads a row of its answer.
type (
	Query = func(s *Shape) (text string, args []any)
	Row   = func(scan func(...any) error) error
)

// Reader answers questions about rows, without locks.
type Reader struct {
	Uses store.Uses
	// Ask has a query made for the table as it is, once for each try, and gives the rows of its answer.
	// The server gives up after the time; 0: it has as long as it takes. An error is the table's.
	Ask asks
	// Names leaves out names that no row can have.
	Names func(ctx context.Context, op string, names []string) ([]string, error)
	// Client waits until one more client's request may use a connection; done ends that.
	Client func(ctx context.Context) (done func(), err error)
}

// ask asks for a client.
func (r *Reader) ask(ctx context.Context, op string, within time.Duration, query Query, row Row) error {
	done, err := r.Client(ctx)
	if err != nil {
		return err
	}
	defer done()
	return r.Ask(ctx, op, within, query, row)
}

// How long the server may take to count, to count what waits before one row, and to list rows.
const (
	countTime = 5 * time.Second
	aheadTime = 2 * time.Second
	listTime  = 4 * time.Second
)

// Look implements store.Table.
func (r *Reader) Look(ctx context.Context, ids []int64) (found map[int64]*store.Seen, err error) {
	return r.look(ctx, r.ask, ids)
}

// asks is how a question is asked: as a client's, or as the table's own.
type asks = func(ctx context.Context, op string, within time.Duration, query Query, row Row) error

func (r *Reader) look(ctx context.Context, ask asks, ids []int64) (found map[int64]*store.Seen, err error) {
	found = make(map[int64]*store.Seen, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	rows, err := seen(ctx, ask, "look at jobs", 0, func(s *Shape) (string, []any) { return " WHERE id IN (" + List(ids) + ")" + s.AnID, nil })
	for _, row := range rows {
		found[row.Job] = row
	}
	return found, err
}

// seen reads rows with what they say about time.
func seen(ctx context.Context, ask asks, op string, within time.Duration, which Query) (rows []*store.Seen, err error) {
	var shape *Shape
	err = ask(ctx, op, within, func(s *Shape) (string, []any) {
		shape, rows = s, nil
		condition, args := which(s)
		return s.selectSeen("") + condition, args
	}, func(scan func(...any) error) error {
		row := &store.Seen{}
		rows = append(rows, row)
		return shape.scanSeen(scan, row)
	})
	return rows, err
}

// someTargets is how many targets are asked for in one query.
const someTargets = 100

// part is a part of a query: the rows of a target that stand first in some order.
type part struct {
	columns string // behind the place of the target, with a comma before each
	hint    string
	rest    string // the condition, the order and the limit; "": it reads no rows of the table
	args    []any
}

// first asks for the first rows of some targets, those of many targets in one query. parts gives the parts of
// the query for a target and its place. A row is the place of its target, then fields; row is called when they are read.
func (r *Reader) first(
	ctx context.Context, ask asks, op string, within time.Duration, targets []string, parts func(s *Shape, place int, name string) []part,
	fields []any, row func(target string),
) error {
	names, err := r.Names(ctx, op, targets)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(names, someTargets) {
		err := ask(ctx, op, within, func(s *Shape) (query string, args []any) {
			var looks []string
			for place, name := range some {
				for _, p := range parts(s, place, name) {
					if p.rest != "" {
						p.rest = " FROM " + s.Table + p.hint + " WHERE " + p.rest
					}
					looks = append(looks, fmt.Sprintf("SELECT * FROM (SELECT %d AS place%s%s) AS some%d", place, p.columns, p.rest, len(looks)))
					args = append(args, p.args...)
				}
			}
			return strings.Join(looks, " UNION ALL "), args
		}, func(scan func(...any) error) error {
			var place int
			err := scan(append([]any{&place}, fields...)...)
			if err == nil {
				row(some[place])
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Waiting implements store.Table. If the server can show what is not committed, Waiting asks it twice in
// one round trip. The committed state shows rows that somebody's open transaction has changed, but may
// still leave as they were. The other shows rows that somebody is about to insert or to set back. If the
// server can't show it, a claim waits for such a transaction, which so hides no row from the claim. Rows
// that are due count as waiting.
func (r *Reader) Waiting(ctx context.Context, targets []string, except []int64) ([]string, error) {
	waiting := map[string]bool{}
	twice := func(ctx context.Context, op string, within time.Duration, query Query, row Row) error {
		return r.Ask(ctx, op, within, func(s *Shape) (string, []any) {
			text, args := query(s)
			if s.Dirty == "" {
				return text, args
			}
			return s.Dirty + text + "; " + text, slices.Concat(args, args)
		}, row)
	}
	err := r.first(ctx, twice, "look for waiting jobs", 0, targets, func(s *Shape, _ int, name string) []part {
		end := s.but(except) + " LIMIT 1"
		list := []part{{hint: s.byClaims(), rest: "status = 'waiting' AND target = ?" + end, args: []any{name}}}
		for _, due := range s.due() {
			list = append(list, part{hint: s.by(s.byDue), rest: due + end, args: []any{name}})
		}
		return list
	}, nil, func(target string) { waiting[target] = true })
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(waiting)), nil
}

// Details implements store.Table. Behind what is seen of any row stand its code and signal as texts, the
// place of its target among the names, and of stdout and stderr each the size and the end.
func (r *Reader) Details(ctx context.Context, ids []int64, targets []string, tail int) (found map[int64]*store.Detail, err error) {
	const op = "read jobs for somebody"
	names, err := r.Names(ctx, op, targets)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var shape *Shape
	err = r.ask(ctx, op, 0, func(s *Shape) (string, []any) {
		shape, found = s, make(map[int64]*store.Detail, len(ids))
		place, args := place(names)
		more := ", " + s.Text("return_code", "") + ", " + s.Text("sig", "") + ", " + place
		for _, column := range []string{"stdout", "stderr"} {
			size, end := s.Tail(column, tail)
			more += ", " + size + ", " + end
		}
		return s.selectSeen(more) + " WHERE id IN (" + List(ids) + ")" + s.AnID, args
	}, func(scan func(...any) error) error {
		var row store.Detail
		var place int
		err := shape.scanSeen(scan, &row.Seen, &row.Code, &row.Sig, &place,
			&row.Stdout.Size, &row.Stdout.Tail, &row.Stderr.Size, &row.Stderr.Tail)
		if place > 0 {
			row.Served = names[place-1]
		}
		for _, output := range []*store.Written{&row.Stdout, &row.Stderr} {
			output.Tail = endOf(output.Tail, tail)
		}
		found[row.Job] = &row
		return err
	})
	return found, err
}

// endOf is the last bytes of a text, in UTF-8 that begins with a whole character.
func endOf(text string, bytes int) string {
	text = text[max(0, len(text)-bytes):]
	for len(text) > 0 && text[0]&0xC0 == 0x80 {
		text = text[1:]
	}
	return strings.ToValidUTF8(text, string(utf8.RuneError))
}

// Ahead implements store.Table. The rows of a target are counted from one waiter to the next one, so that
// each is met once. A name that the column can't hold has no rows.
func (r *Reader) Ahead(ctx context.Context, waiters []store.Waiter, most int) (map[int64]store.Counted, error) {
	waiters = slices.Clone(waiters)
	slices.SortFunc(waiters, func(a, b store.Waiter) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Job, b.Job))
	})
	ahead := make(map[int64]store.Counted, len(waiters))
	rows := 0
	for i, one := range waiters {
		condition, args := "", []any{one.Target, one.Job}
		if i > 0 && waiters[i-1].Target == one.Target {
			condition, args = " AND id >= ?", append(args, waiters[i-1].Job)
		} else {
			rows = 0
		}
		var more int
		err := r.ask(ctx, "count the jobs ahead of given ones", aheadTime, func(s *Shape) (string, []any) {
			return "SELECT COUNT(*) FROM (SELECT 1 FROM " + s.Table + s.byClaims() +
					" WHERE status = 'waiting' AND target = ? AND id < ?" + condition + s.AnID + " LIMIT ?) AS stretch",
				append(slices.Clip(args), max(most-rows+1, 0))
		}, func(scan func(...any) error) error { return scan(&more) })
		if err != nil {
			return nil, err
		}
		rows += more
		ahead[one.Job] = store.Counted{Rows: rows}.UpTo(most)
	}
	return ahead, nil
}

// CountWaiting implements store.Table. It reads as many entries of the index as it counts, and one row:
// the waiting one with the lowest id. Rows that are due wait, too.
func (r *Reader) CountWaiting(ctx context.Context, target string, most int) (counted store.Counted, err error) {
	var due store.Counted
	err = r.count(ctx, "count waiting jobs", target, func(s *Shape) (string, []any) {
		from := " FROM " + s.Table + s.byClaims() + " WHERE status = 'waiting' AND target = ?"
		query, args := "SELECT (SELECT COUNT(*) FROM (SELECT 1"+from+" LIMIT "+strconv.Itoa(most+1)+") AS some),"+
			" COALESCE((SELECT "+s.Seconds("time_created")+from+" ORDER BY id LIMIT 1), 0)", []any{target, target}
		if !r.Uses.Delays() {
			return query + ", 0, 0", args
		}
		more, moreArgs := s.countDue(target, 0, most)
		return query + ", due.n, due.oldest FROM (" + more + ") AS due", append(args, moreArgs...)
	}, &counted.Rows, &counted.Oldest, &due.Rows, &due.Oldest)
	if err != nil {
		return store.Counted{}, err
	}
	counted.Rows += due.Rows
	if due.Oldest != 0 {
		counted.Oldest = min(cmp.Or(counted.Oldest, due.Oldest), due.Oldest)
	}
	return counted.UpTo(most), nil
}

// WaitingTargets implements store.Table. It reads one entry of the index for each name.
func (r *Reader) WaitingTargets(ctx context.Context, most int) (names []string, err error) {
	for last := ""; len(names) < most; names = append(names, last) {
		var next sql.NullString
		err := r.ask(ctx, "look for the targets of waiting jobs", countTime, func(s *Shape) (string, []any) {
			return "SELECT MIN(target) FROM " + s.Table + s.byClaims() + " WHERE status = 'waiting' AND target > ?", []any{last}
		}, func(scan func(...any) error) error { return scan(&next) })
		if err != nil || !next.Valid || next.String == last { // a name that is no text is greater than itself
			return names, err
		}
		last = next.String
	}
	return names, nil
}

// CountDue implements store.Table.
func (r *Reader) CountDue(ctx context.Context, target string, before int64, most int) (counted store.Counted, err error) {
	if !r.Uses.Delays() {
		return counted, nil
	}
	err = r.count(ctx, "count due jobs", target, func(s *Shape) (string, []any) { return s.countDue(target, before, most) }, &counted.Rows, &counted.Oldest)
	return counted.UpTo(most), err
}

// count reads the one row of a query about a target; none of one whose name the column can't hold.
func (r *Reader) count(ctx context.Context, op, target string, query Query, into ...any) error {
	names, err := r.Names(ctx, op, []string{target})
	if err != nil || len(names) == 0 {
		return err
	}
	return r.ask(ctx, op, countTime, query, func(scan func(...any) error) error { return scan(into...) })
}

// countDue is the query for how many rows are due, and became so before a time (0: whenever), and since when the first.
func (s *Shape) countDue(target string, before int64, most int) (string, []any) {
	if before <= 0 {
		before = math.MaxInt64
	}
	return "SELECT COUNT(*) AS n, COALESCE(MIN(due), 0) AS oldest FROM (SELECT " + s.number(store.ColumnRunAt) + " AS due FROM " + s.Table + s.by(s.byDue) +
		" WHERE status = 'delayed' AND target = ? AND run_at <= " + s.Now + " AND run_at < ? ORDER BY run_at LIMIT ?) AS some", []any{target, before, most + 1}
}

// byTime asks for the first delayed rows of targets: of each its target, its id, when it is due, and what the
// clock says. A row whose id is 0 tells of the clock alone. It reads as many entries of an index for each target.
func (r *Reader) byTime(ctx context.Context, op string, targets []string, except []int64, limit int, row func(target string, id, due, now int64)) error {
	var id, due, now int64
	return r.first(ctx, r.Ask, op, listTime, targets, func(s *Shape, place int, name string) (list []part) {
		now := ", " + s.Clock + " AS now"
		if place == 0 {
			list = append(list, part{columns: ", 0 AS id, 0 AS due" + now})
		}
		return append(list, part{
			", id, " + s.number(store.ColumnRunAt) + " AS due" + now, s.by(s.byDue),
			"status = 'delayed' AND target = ?" + s.but(except) + " ORDER BY run_at LIMIT " + strconv.Itoa(limit),
			[]any{name},
		})
	}, []any{&id, &due, &now}, func(target string) { row(target, id, due, now) })
}

// NextDue implements store.Table.
func (r *Reader) NextDue(ctx context.Context, targets []string, except []int64) (due journal.Due, err error) {
	if !r.Uses.Delays() {
		return due, nil
	}
	err = r.byTime(ctx, "look for the next delayed jobs", targets, except, 1, func(target string, id, at, now int64) {
		if due.Now = time.UnixMicro(now); due.Next == nil {
			due.Next = map[string]int64{}
		}
		if id != 0 && at != journal.PausedAt {
			due.Next[target] = at
		}
	})
	if err != nil {
		return journal.Due{}, err
	}
	return due, nil
}

// Recurring implements store.Table. An index on the schedule alone tells which rows come first; these are read
// then, piece by piece where some have ended or are of other targets. Without that index the expression on id keeps
// the server from going along the primary key, past all rows that have ended, until it has met enough that recur.
func (r *Reader) Recurring(ctx context.Context, targets []string, after int64, limit int) (rows []*store.Seen, err error) {
	const op = "look for recurring jobs"
	if !r.Uses.Has(store.ColumnSchedule) {
		return nil, store.ErrNoSchedules
	}
	names, err := r.Names(ctx, op, targets)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	among, args := in(names)
	recur := " AND schedule <> '' AND status IN (" + recurs + ") AND " + among
	for more := true; more && len(rows) < limit; {
		var ids []int64
		err := r.ask(ctx, op, listTime, func(s *Shape) (string, []any) {
			ids = nil
			query, args := "SELECT id FROM "+s.Table+s.by(s.bySchedule)+" WHERE id + 0 > ?"+s.AnID, append([]any{after}, args...)
			if s.bySchedule == "" {
				query += recur
			} else {
				query, args = query+" AND schedule > ''", args[:1]
			}
			return query + " ORDER BY id + 0 LIMIT ?", append(args, limit)
		}, func(scan func(...any) error) error {
			ids = append(ids, 0)
			return scan(&ids[len(ids)-1])
		})
		if err != nil || len(ids) == 0 {
			return rows, err
		}
		some, err := seen(ctx, r.ask, op, listTime, func(*Shape) (string, []any) {
			return " WHERE id IN (" + List(ids) + ")" + recur + " ORDER BY id", args
		})
		if err != nil {
			return nil, err
		}
		rows, more, after = append(rows, some...), len(ids) == limit, ids[len(ids)-1]
	}
	return rows[:min(len(rows), limit)], nil
}

// Unclaimed implements store.Table. A delayed row is one of them where it is due, and has not ended since
// that time.
func (r *Reader) Unclaimed(ctx context.Context, targets []string, created, after int64, limit int) (ids []int64, err error) {
	const op = "look for rows that nobody has claimed"
	names, err := r.Names(ctx, op, targets)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	among, args := in(names)
	err = r.Ask(ctx, op, 0, func(s *Shape) (string, []any) {
		ids = nil
		free := isFree
		if s.Uses.Delays() {
			free = fmt.Sprintf("(%s OR %s AND run_at <= %s AND %s < %d)", isFree, isDelayed, s.Now, s.Seconds("time_finished"), created)
		}
		return "SELECT id FROM " + s.Table + " WHERE " + free + s.AnID + " AND id > ? AND " + s.Seconds("time_created") + " < ? AND " + among + " ORDER BY id LIMIT ?",
			slices.Concat([]any{after, created}, args, []any{limit})
	}, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// Free implements store.Table. The index alone tells which rows come first; these are read then.
func (r *Reader) Free(ctx context.Context, status string, targets []string, before int64, limit int) (rows []*store.Seen, err error) {
	const op = "look for rows that nobody has claimed"
	if status == journal.RowDelayed && !r.Uses.Delays() {
		return nil, store.ErrNoDelays
	}
	var ids []int64
	var id int64
	err = r.first(ctx, r.ask, op, listTime, targets, func(s *Shape, _ int, name string) []part {
		rest := "status = ? AND target = ? AND id < ?" + s.AnID + " ORDER BY id DESC LIMIT " + strconv.Itoa(limit)
		return []part{{", id", s.by(s.byID), rest, []any{status, name, before}}}
	}, []any{&id}, func(string) { ids = append(ids, id) })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(ids, func(a, b int64) int { return cmp.Compare(b, a) })
	ids = slices.Compact(ids)
	if ids = ids[:min(len(ids), limit)]; len(ids) == 0 {
		return nil, nil
	}
	rows, err = seen(ctx, r.ask, op, listTime, func(s *Shape) (string, []any) {
		return " WHERE id IN (" + List(ids) + ") AND status = ?", []any{status}
	})
	slices.SortFunc(rows, func(a, b *store.Seen) int { return cmp.Compare(b.Job, a.Job) })
	return rows, err
}

// UnderWay implements store.Table.
func (r *Reader) UnderWay(ctx context.Context, owner string, targets []string) (rows []journal.Row, err error) {
	const op = "look for jobs under way"
	names, err := r.Names(ctx, op, targets)
	if err != nil {
		return nil, err
	}
	var shape *Shape
	err = r.Ask(ctx, op, 0, func(s *Shape) (string, []any) {
		shape, rows = s, nil
		condition, args := underWay(s.Text(s.Quote(s.Owner), ""), owner, names)
		query, _ := s.selectRow(nil)
		return query + " WHERE id <> 0" + s.AnID + " AND " + condition, args
	}, func(scan func(...any) error) error {
		var one Line
		var place int
		err := shape.scanRow(scan, &one, &place)
		rows = append(rows, one.Row)
		return err
	})
	return rows, err
}

// ErrTooSlow says that the server gave up a question because of its time.
var ErrTooSlow = errors.New("it takes the server too long; is there an index on status and target, on these and run_at, or on schedule?")

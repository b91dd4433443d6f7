package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/screen"
	"jobd/exec/schedule"
	jobnet "jobd/net"
	"jobd/net/api"
)

func (p *program) queue() *ffcli.Command {
	var watch, later bool
	most := -1
	c := command("queue", "queue [T…] [--watch] [--delayed [-n N]]", "what waits and what runs of these targets, or of all, and when they are empty at the pace of the last minute; or which rows come later, and why", func(ctx context.Context, args []string) error {
		return p.watched(ctx, watch, func(ctx context.Context, c *client) (err error) {
			if later {
				err = p.listDelayed(ctx, c, args, cmp.Or(max(most, 0), usualDelayed))
			} else {
				err = p.showQueue(ctx, c, args)
			}
			if watch && !p.json() {
				p.sayBelow(err)
			}
			return err
		})
	})
	checkFirst(c, func([]string) error {
		switch {
		case most == -1:
			return nil
		case !later:
			return wrongUsage("queue: -n is for --delayed")
		case most < 1 || most > api.MostDelayed:
			return wrongUsage("queue: -n %d is not allowed; allowed is 1 to %d", most, api.MostDelayed)
		}
		return nil
	})
	c.FlagSet.BoolVar(&later, "delayed", false, "list the rows that are delayed, the next first, with why each comes later: for the first time, once more, or because it recurs")
	c.FlagSet.IntVar(&most, "n", most, "with --delayed: how many rows (default: 20)")
	c.FlagSet.BoolVar(&watch, "watch", false, "show it anew every 2 s, until interrupted")
	c.LongHelp = "  jobctl queue\n  jobctl --master queue mail --watch\n  jobctl queue --delayed -n 100"
	return c
}

// showQueue prints how targets stand.
func (p *program) showQueue(ctx context.Context, c *client, targets []string) error {
	s, err := takeCensus(ctx, c)
	if err != nil {
		return err
	}
	all, err := s.wanted(targets)
	if err != nil {
		return errors.Join(err, s.silent())
	}
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.Target
	}
	s.count(ctx, names)
	list := make([]queued, len(all))
	for i, t := range all {
		list[i] = queuedOf(t, s.waiting)
	}
	if p.json() {
		err = p.printJSON(map[string]any{"targets": list})
	} else {
		p.print(p.queueTable(list))
	}
	return exit.Join(append([]error{err, s.silent(), s.older()}, s.why...)...)
}

// wanted gives the tallies of some targets, or of all: those that were poked and that nobody serves
// among them.
func (s *census) wanted(targets []string) ([]tally, error) {
	all := s.tallies()
	for _, name := range s.unserved() {
		all = append(all, tally{Target: name})
	}
	slices.SortFunc(all, func(a, b tally) int { return strings.Compare(a.Target, b.Target) })
	if len(targets) == 0 {
		return all, nil
	}
	known := make([]string, len(all))
	for i, t := range all {
		known[i] = t.Target
	}
	for _, name := range targets {
		if !slices.Contains(known, name) {
			err := fmt.Errorf("nobody serves target '%s'", clean(name))
			if near := conf.Nearest(name, known); near != "" {
				err = fmt.Errorf("%w; the nearest that is served is '%s'", err, clean(near))
			}
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(t tally) bool { return !slices.Contains(targets, t.Target) }), nil
}

// older names the workers that can't tell what runs.
func (s *census) older() error {
	var errs []error
	for _, w := range s.workers {
		if w.err == nil && !tellsMore(w.answer) {
			errs = append(errs, named(w.from, errOlder))
		}
	}
	return errors.Join(errs...)
}

var errOlder = errors.New("it can't tell what runs and waits, because it is an older jobd, or the original")

// queued is a target as queue prints it. What nobody can tell is nil.
type queued struct {
	Target     string `json:"target"`
	Workers    int    `json:"workers"`     // that serve it
	Paused     int    `json:"paused"`      // how many of them have it paused
	Waiting    *int   `json:"waiting"`     // rows
	More       bool   `json:"waitingMore"` // there are more than that
	Oldest     *int64 `json:"oldest"`      // when the first of them was made, in unix milliseconds
	Running    *int   `json:"running"`
	Slots      int    `json:"slots"`
	Prefetched *int   `json:"prefetched"`
	Started    *int   `json:"startedLastMinute"`
	Ended      *int   `json:"endedLastMinute"`
	Failed     *int   `json:"failedLastMinute"`
	EmptyIn    *int64 `json:"emptyInSeconds"` // at the pace of the last minute; nil: never, paused, can't be started, or not known

	Due     int   `json:"due,omitempty"`     // delayed rows that are due
	DueMore bool  `json:"dueMore,omitempty"` // there are more than that
	NextDue int64 `json:"nextDue,omitempty"` // when the next delayed row is due, or was, in unix milliseconds
	now     int64 // what the clock says by which it is due, in unix seconds; 0: nobody has told
}

func queuedOf(t tally, waiting map[string]api.WaitingTarget) queued {
	q := queued{Target: t.Target, Workers: t.Workers, Paused: t.Paused, Slots: t.Slots}
	if w, counted := waiting[t.Target]; counted {
		q.Waiting, q.More = &w.Count, w.More
		q.Due, q.DueMore, q.NextDue, q.now = w.Due, w.DueMore, w.NextDue*1000, w.Now
		if w.Oldest > 0 {
			oldest := w.Oldest * 1000
			q.Oldest = &oldest
		}
	}
	if t.Untold == 0 {
		q.Running, q.Prefetched, q.Started, q.Ended, q.Failed = &t.Running, &t.Prefetched, &t.Started, &t.Ended, &t.Failed
	}
	if q.Waiting == nil || t.Untold > 0 {
		return q
	}
	left, pace := int64(*q.Waiting+q.Due+t.Prefetched), int64(t.Ended)
	if left == 0 || pace > 0 && !t.stands() {
		seconds := int64(0)
		if left > 0 {
			seconds = (left*60 + pace - 1) / pace
		}
		q.EmptyIn = &seconds
	}
	return q
}

// queueTable has a line for each target.
func (p *program) queueTable(list []queued) table {
	t := table{
		head: []string{"TARGET", "WAITING", "OLDEST", "RUNNING", "SLOTS", "STARTED", "ENDED", "EMPTY IN"},
		none: "no targets", elastic: "TARGET",
	}
	delays := slices.ContainsFunc(list, func(q queued) bool { return q.NextDue > 0 })
	if delays { // what runs, and of how many slots, stands in one column then
		t.head = []string{"TARGET", "WAITING", "OLDEST", "DUE", "NEXT DUE", "RUNNING", "ENDED", "EMPTY IN"}
	}
	for _, q := range list {
		waiting, oldest := untold, untold
		if q.Waiting != nil {
			w := api.WaitingTarget{Count: *q.Waiting, More: q.More}
			if q.Oldest != nil {
				w.Oldest = *q.Oldest / 1000
			}
			waiting, oldest = countText(w), p.oldestText(w)
		}
		if delays {
			t.add(line(q.Target), line(waiting), line(oldest), line(q.dueText()), line(p.dueIn(q.NextDue/1000, q.now)),
				line(fmt.Sprintf("%s/%d", orUntold(q.Running), q.Slots)), line(orUntold(q.Ended)), line(q.emptyText()))
			continue
		}
		t.add(line(q.Target), line(waiting), line(oldest), line(orUntold(q.Running)), line(q.Slots),
			line(orUntold(q.Started)), line(orUntold(q.Ended)), line(q.emptyText()))
	}
	return t
}

// emptyText is in what time the target is empty: - where it is, never where nothing ends.
func (q queued) emptyText() string {
	switch {
	case q.Waiting == nil || q.Ended == nil:
		return untold
	case q.EmptyIn == nil && q.Paused > 0 && q.Paused == q.Workers:
		return "paused"
	case q.EmptyIn == nil:
		return "never"
	case *q.EmptyIn == 0:
		return "-"
	}
	text := screen.Length(time.Duration(*q.EmptyIn) * time.Second)
	if q.More || q.DueMore {
		return ">" + text
	}
	return text
}

func orUntold(n *int) string {
	if n == nil {
		return untold
	}
	return fmt.Sprint(*n)
}

// dueText is how many delayed rows are due.
func (q queued) dueText() string {
	if q.DueMore {
		return fmt.Sprintf("%d+", q.Due)
	}
	return fmt.Sprint(q.Due)
}

// dueIn is how far off the next delayed row is, which may be due already, where the clock by which it
// is due says now; both in unix seconds. 0: there is none, or nobody has told.
func (p *program) dueIn(next, now int64) string {
	if next == 0 {
		return ""
	}
	if now == 0 {
		now = p.now().Unix()
	}
	left := time.Duration(next-now) * time.Second
	if left <= 0 {
		return "now"
	}
	return "in " + screen.Length(left)
}

// usualDelayed is how many delayed rows are listed where nobody says otherwise.
const usualDelayed = 20

// delayedRow is a row that comes at a time, and the worker that told of it.
type delayedRow struct {
	Worker string `json:"worker,omitempty"` // "" where one worker was asked
	api.DelayedRow
}

// listDelayed lists rows that are delayed, so many at most, in the order in which they are due.
func (p *program) listDelayed(ctx context.Context, c *client, targets []string, most int) error {
	if err := c.expect(ctx); err != nil {
		return err
	}
	all, more, errs, err := delayedOf(ctx, c, targets, most)
	if err != nil {
		return err
	}
	if len(all) == 0 && len(errs) == 0 {
		for _, target := range targets {
			p.noteUnserved(ctx, target)
		}
	}
	return errors.Join(append([]error{p.printDelayed(all, more)}, errs...)...)
}

// delayedOf asks for the rows that are due next. Of a master's workers each tells the first ones of its
// targets, so that the first ones of all are among them.
func delayedOf(ctx context.Context, c *client, targets []string, most int) (all []delayedRow, more bool, errs []error, err error) {
	errs, err = onceEach(ctx, c, targets, func(one asking) (enough bool, err error) {
		var answer api.DelayedRows
		if err := one.from.ask(ctx, api.Delayed.Name, fieldsOf(api.DelayedQuery{Targets: one.targets, Most: most}), &answer); err != nil {
			return false, err
		}
		more = more || answer.More
		for _, row := range answer.Rows {
			all = append(all, delayedRow{one.from.name, row})
		}
		return false, nil
	})
	slices.SortStableFunc(all, func(a, b delayedRow) int { return cmp.Or(cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.Job, b.Job)) })
	if len(all) > most {
		all, more = all[:most], true
	}
	return all, more, errs, err
}

// printDelayed prints delayed rows.
func (p *program) printDelayed(all []delayedRow, more bool) error {
	if p.json() {
		if all == nil {
			all = []delayedRow{}
		}
		return p.printJSON(map[string]any{"rows": all, "more": more})
	}
	t := table{head: []string{"JOB", "TARGET", "DUE", "WHY"}, none: "no row is delayed", elastic: "TARGET|WHY"}
	for _, row := range all {
		t.add(line(row.Job), line(row.Target), line(p.dueText(row)), line(row.why()))
	}
	p.print(t)
	if !more {
		return nil
	}
	return p.sayNone(fmt.Sprintf("the next %d; -n N shows more", len(all)))
}

// dueText is when a row is due.
func (p *program) dueText(row delayedRow) string {
	if row.RunAt == 0 {
		return "not planned yet"
	}
	return p.seconds(row.RunAt)
}

// why is why a row is delayed.
func (row delayedRow) why() string {
	recurs := ""
	if row.Schedule != "" {
		recurs = "recurs " + inZone(row.Schedule, row.In)
	}
	switch {
	case row.Bad != "":
		return "is ignored then: " + row.Bad
	case row.Attempts > 0:
		text := fmt.Sprintf("attempt %d", row.Attempts+1)
		if row.MaxAttempts > 0 {
			text += fmt.Sprintf(" of %d", row.MaxAttempts)
		}
		if how := row.lastEnd(); how != "" {
			text += " after " + how
		}
		if recurs != "" {
			text += "; " + recurs
		}
		return text
	case recurs != "":
		return recurs
	}
	return "first time"
}

// lastEnd is how the attempt ended that ended last.
func (row delayedRow) lastEnd() string {
	switch {
	case row.Signal != "":
		return row.Signal
	case row.Result == "fail" && row.Code != nil:
		return fmt.Sprintf("exit code %d", *row.Code)
	}
	return row.Result
}

// inZone is a schedule, and its zone where that is to be told.
func inZone(text, zone string) string {
	return strings.TrimSpace(text + " " + zoneOf(text, zone))
}

// zoneOf is the zone of a schedule, where that is not the usual one and means something.
func zoneOf(text, zone string) string {
	if s, err := schedule.Parse(text); err == nil {
		if _, every := s.Every(); every {
			return ""
		}
	}
	if zone == "UTC" {
		return ""
	}
	return zone
}

// census is what was asked of a daemon for status and queue: a worker, or a master and its workers.
type census struct {
	said    json.RawMessage // the daemon's answer to status, as it came
	master  *masterStatus   // nil: it is a worker
	workers []told[*workerStatus]
	waiting map[string]api.WaitingTarget // by target; one that is not here could not be counted
	why     []error                      // why some could not
	lost    bool                         // how many wait in all is not known
}

// takeCensus asks for the status of everything that the daemon at the other end leads to. A worker that
// does not answer its master has an error.
func takeCensus(ctx context.Context, c *client) (s *census, err error) {
	if !c.master {
		s = &census{workers: make([]told[*workerStatus], 1)}
		if s.said, err = c.ask(ctx, api.Status.Name, nil); err != nil {
			return nil, err
		}
		s.workers[0].from = &remote{client: c}
		return s, c.understand(api.Status.Name, s.said, &s.workers[0].answer)
	}
	s = &census{master: &masterStatus{}}
	if s.said, err = c.ask(ctx, api.MasterStatus.Name, api.Polling{Workers: true}); err != nil {
		return nil, err
	}
	if err := c.understand(api.Status.Name, s.said, s.master); err != nil {
		return nil, err
	}
	for _, w := range s.master.Workers {
		one := told[*workerStatus]{
			from:   &remote{client: c, name: w.Name, address: net.JoinHostPort(w.RemoteAddr, strconv.Itoa(w.RemotePort))},
			answer: w.Status,
		}
		if w.Status == nil {
			one.err = &jobnet.RemoteError{Text: cmp.Or(clean(w.StatusError), "it told nothing")}
		}
		s.workers = append(s.workers, one)
	}
	return s, nil
}

// understand decodes an answer.
func (c *client) understand(typ string, answer json.RawMessage, into any) error {
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s: answer to %s is not understood: %w", c.address, typ, err)
	}
	return nil
}

// tellsMore tells whether a worker says more than the original and older versions do: what runs, and
// how the database is. They can't count what waits, either.
func tellsMore(s *workerStatus) bool { return s.Database != nil }

// count asks how many rows wait for targets: for each of them one worker that serves it, as all of
// them have the same table, and any worker for a target that nobody serves. Where one can't tell,
// the next one is asked.
func (s *census) count(ctx context.Context, targets []string) {
	s.waiting, s.why = make(map[string]api.WaitingTarget, len(targets)), nil
	left := make(map[string]bool, len(targets))
	for _, target := range targets {
		left[target] = true
	}
	for _, serving := range []bool{true, false} {
		for _, w := range s.workers {
			if w.err != nil || !tellsMore(w.answer) {
				continue
			}
			var mine []string
			for _, target := range slices.Sorted(maps.Keys(left)) {
				if _, serves := w.answer.Targets[target]; serves || !serving && !s.served(target) {
					mine = append(mine, target)
				}
			}
			if len(mine) > 0 {
				s.countWith(ctx, w.from, mine, left)
			}
		}
	}
	s.lost = len(left) > 0 && (len(s.why) > 0 || len(s.waiting) == 0)
}

// countWith asks one worker, and strikes from the list what it has counted.
func (s *census) countWith(ctx context.Context, from *remote, targets []string, left map[string]bool) {
	var rows api.WaitingRows
	if err := from.ask(ctx, api.Waiting.Name, map[string]any{"targets": targets}, &rows); err != nil {
		s.why = append(s.why, exit.With(exit.Unknown, named(from, err)))
		return
	}
	errs := make(map[string]bool)
	for _, target := range targets {
		switch counted, there := rows.Targets[target]; {
		case !there:
		case counted.Error == "":
			s.waiting[target] = counted
			delete(left, target)
		case !errs[counted.Error]:
			errs[counted.Error] = true
			said := &jobnet.RemoteError{Text: "rows of target " + clean(target) + ": " + clean(counted.Error)}
			s.why = append(s.why, exit.With(exit.Unknown, named(from, said)))
		}
	}
}

// served tells whether a worker that has answered serves a target.
func (s *census) served(target string) bool {
	return slices.ContainsFunc(s.workers, func(w told[*workerStatus]) bool {
		if w.err != nil {
			return false
		}
		_, serves := w.answer.Targets[target]
		return serves
	})
}

// targets are those that the workers which have answered serve.
func (s *census) targets() []string {
	all := make(map[string]bool)
	for _, w := range s.workers {
		if w.err == nil {
			for target := range w.answer.Targets {
				all[target] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// unserved are the targets that were poked and that nobody serves, as far as the master names them.
func (s *census) unserved() (targets []string) {
	if s.master != nil {
		for _, u := range s.master.Unserved {
			targets = append(targets, u.Target)
		}
	}
	return targets
}

// silent names the workers that did not answer their master.
func (s *census) silent() error {
	if s.master == nil {
		return nil
	}
	return silent(s.workers)
}

// delays tells whether any target has a delayed row, as far as is known.
func (s *census) delays() bool {
	for _, w := range s.waiting {
		if w.NextDue > 0 {
			return true
		}
	}
	for _, w := range s.workers {
		if w.err != nil || w.answer == nil {
			continue
		}
		for _, t := range w.answer.Targets {
			if t.NextDue > 0 {
				return true
			}
		}
	}
	return false
}

// nextDue is when the next delayed row of a target is due, in unix seconds: as the table has it, or
// else as the workers' claims have learned; 0: none is known. now is what the clock says by which it
// is due; 0: nobody has told.
func (s *census) nextDue(target string) (next, now int64) {
	if w, counted := s.waiting[target]; counted && w.Error == "" {
		return w.NextDue, w.Now
	}
	for _, w := range s.workers {
		if w.err != nil || w.answer == nil {
			continue
		}
		if at := w.answer.Targets[target].NextDue; at > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next, 0
}

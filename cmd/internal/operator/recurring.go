package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/screen"
	"jobd/exec/schedule"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Recurring is a row that recurs, and the worker that told of it.
type Recurring struct {
	Worker string `json:"worker,omitempty"` // "" where one worker was asked
	api.RecurringRow
}

// Recur asks for the rows that recur, of one target or of all (""), in the order of their ids behind one (nil: from
// the first on), so many at most (0: all). Of a master's workers those are asked that it takes to have each target
// once: the others would tell the same of the same table. errs are of those that did not tell.
func Recur(ctx context.Context, d *Daemon, target string, after *jobnet.Whole, most int) (all []Recurring, errs []error, err error) {
	var targets []string
	if target != "" {
		targets = []string{target}
	}
	workers, missed, err := d.Workers(ctx)
	if err != nil {
		return nil, nil, err
	}
	told := false
	errs = share(workers, targets, func(w *Worker, targets []string) error {
		rows, err := w.recurring(ctx, api.RecurringQuery{Targets: targets, After: after}, most)
		all, told = append(all, rows...), told || err == nil
		return err
	})
	if told { // of targets of workers that do not use the column no row recurs
		errs = slices.DeleteFunc(errs, func(err error) bool { return strings.Contains(err.Error(), doNotRecur) })
	}
	if missed != nil {
		errs = append(errs, missed)
	}
	slices.SortStableFunc(all, func(a, b Recurring) int { return cmp.Compare(a.Job, b.Job) })
	if most > 0 {
		all = all[:min(len(all), most)]
	}
	return all, errs, nil
}

// doNotRecur is how workers say that they do not use the column schedule.
const doNotRecur = "rows do not recur here"

// recurring asks a worker for rows that recur, page by page, so many at most (0: all).
func (w *Worker) recurring(ctx context.Context, query api.RecurringQuery, most int) (all []Recurring, err error) {
	for {
		if most > 0 {
			query.Most = min(most-len(all), api.MostRecurring)
		}
		var page api.RecurringRows
		if err := w.Ask(ctx, api.Recurring.Name, query, &page); err != nil {
			return nil, err
		}
		for _, row := range page.Rows {
			all = append(all, Recurring{w.Name, row})
		}
		if !page.More || len(page.Rows) == 0 || most > 0 && len(all) >= most {
			return all, nil
		}
		query.After = &page.Rows[len(page.Rows)-1].Job
	}
}

// ResultText is how the run, or the attempt, ended that ended last.
func (r Recurring) ResultText() string {
	switch {
	case r.Finished == 0:
		return ""
	case r.Signal != "":
		return r.Signal
	case r.Result == "ok" || r.Code == nil:
		return r.Result
	}
	return fmt.Sprintf("%s %d", r.Result, *r.Code)
}

// ZoneText is the zone of its schedule, where that is to be told.
func (r Recurring) ZoneText() string { return zoneOf(r.Schedule, r.Zone) }

// ScheduleText is its schedule, with its zone where that is wanted and to be told.
func (r Recurring) ScheduleText(zone bool) string {
	if zone {
		return strings.TrimSpace(r.Schedule + " " + r.ZoneText())
	}
	return r.Schedule
}

// NextText is when a row is run next, and what is to be said before that: that it is running, say.
func (r Recurring) NextText(clock Clock) (when, next string) {
	switch {
	case r.Error != "":
		return "never:", "bad schedule"
	case r.Paused:
		return "paused", ""
	case r.Status == journal.RowRunning:
		return "runs; then", clock.Seconds(r.Next)
	case r.Status != journal.RowDelayed:
		return r.Status + "; then", clock.Seconds(r.Next)
	case r.RunAt == 0:
		return "not planned yet", ""
	case r.Attempts > 0:
		return fmt.Sprintf("attempt %d at", r.Attempts+1), clock.Seconds(r.RunAt)
	case r.Due:
		return "due since", clock.Seconds(r.RunAt)
	}
	return "", clock.Seconds(r.RunAt)
}

// Words say when its schedule is due, as people say it; "" where it can't be read.
func (r Recurring) Words() string {
	plan, err := schedule.Parse(r.Schedule)
	if err != nil {
		return ""
	}
	return plan.Explain(false)
}

// NextTimes are the next times of its schedule, so many at most; none where it is paused or can't be read.
func (r Recurring) NextTimes(now time.Time, most int) (all []time.Time) {
	plan, err := schedule.Parse(r.Schedule)
	if err != nil || r.Paused {
		return nil
	}
	zone, err := schedule.Zone(r.Zone)
	if err != nil {
		return nil
	}
	for at := now.Unix(); len(all) < most; {
		if at = plan.Next(at, zone); at == 0 {
			break
		}
		all = append(all, time.Unix(at, 0))
	}
	return all
}

// Late is how much later than planned its run was started that was started last; false where that is not
// known.
func (r Recurring) Late() (late time.Duration, known bool) {
	if r.Planned == 0 || r.Started < r.Planned {
		return 0, false
	}
	return time.Duration(r.Started-r.Planned) * time.Second, true
}

// planRows has a worker change the plans of delayed rows: run-now, pause-schedule or continue-schedule. done is the
// word for what is done to them.
func planRows(ctx context.Context, workers []*Worker, request, done string, ids []jobnet.Whole) (planned api.PlannedRows, err error) {
	planned, by, err := first[api.PlannedRows](ctx, workers, request, api.PlanRows{IDs: ids}, true)
	switch {
	case err == nil:
		return planned, nil
	case by == nil:
		return planned, errors.Join(err, fmt.Errorf("no worker could be asked: %[2]s not %[1]s", done, screen.Count(len(ids), "job")))
	}
	return planned, fmt.Errorf("%w; it is unknown whether %s (the first: %d) were %s; repeating the command is safe", err, screen.Count(len(ids), "job"), ids[0], done)
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

// Planned is what became of the plans of delayed rows that somebody has changed by hand.
type Planned struct {
	api.PlannedRows
	Asked []Job // for which a worker was asked, with their targets
}

// Replan has the plans of delayed rows changed by a request: made due, paused or continued, as done says it.
// The errors say why others were left.
func Replan(ctx context.Context, j *Journals, request, done string, jobs []Job) (p *Planned, errs []error, err error) {
	p = &Planned{PlannedRows: api.PlannedRows{Jobs: map[jobnet.Whole]int64{}}}
	rows, wrong, err := RowsOf(ctx, j, jobs)
	if err != nil {
		return nil, nil, err
	}
	p.Errors = wrong
	ids := map[string][]jobnet.Whole{} // of each target
	for _, job := range jobs {
		switch row, there := rows[job.ID]; {
		case !there:
		case row.Status == journal.RowWaiting:
			wrong[job.ID] = fmt.Sprintf("it is not delayed: it waits already (jobctl why %d says for what)", job.ID)
		case row.Status != journal.RowDelayed:
			wrong[job.ID] = notDelayed(row.Status)
		default:
			of := row.Target
			if len(j.Workers) == 1 {
				of = "" // one request will do
			}
			ids[of] = append(ids[of], job.ID)
			p.Asked = append(p.Asked, Job{ID: job.ID, Target: row.Target})
		}
	}
	for _, target := range slices.Sorted(maps.Keys(ids)) {
		answer, err := planRows(ctx, servingFirst(target, j.Workers), request, done, ids[target])
		if err != nil {
			errs = append(errs, err)
		}
		maps.Copy(p.Jobs, answer.Jobs)
		maps.Copy(p.Errors, answer.Errors)
	}
	for _, id := range slices.Sorted(maps.Keys(p.Errors)) {
		errs = append(errs, JobError(id, p.Errors[id]))
	}
	return p, errs, nil
}

// notDelayed says why a row that is not delayed is left as it is.
func notDelayed(status string) string {
	switch status {
	case journal.RowAccepted, journal.RowRunning:
		return "it is not delayed: it is " + status + " already"
	case journal.RowManual:
		return "it is not delayed but manual: jobctl run-manual runs it"
	case journal.RowDone, journal.RowIgnored:
		return "it is not delayed but " + status + ": jobctl retry has it run once more"
	}
	return fmt.Sprintf("it is not delayed: its status is %q", status)
}

package service

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
)

// Limited carries out a request. To somebody who has not all targets, the others do not exist: a request that
// names no target is about those that it has, and a job of another one is not found. (A target that it names
// and has not was refused before.)
func Limited[Q, A any](
	ctx context.Context, s *Service, kind api.Kind, from Call, query Q, do func(ctx context.Context, from Call, query Q) (A, error),
) (answer A, err error) {
	if from.Who.All() && from.Who.Scope.Has(principal.Read) {
		return do(ctx, from, query)
	}
	l, narrow := limit{Service: s, who: from.Who, request: kind.Name}, query
	some, err := l.narrow(ctx, &narrow)
	if err != nil {
		return answer, err
	}
	if l.inVain && kind.Changes {
		s.refused(kind.Name, from, fmt.Sprintf("job %d not found", l.absent[0]))
	}
	if some {
		if answer, err = do(ctx, from, narrow); err != nil {
			return answer, err
		}
	}
	return l.cut(query, answer).(A), nil
}

// limit is what one request of somebody who has not all targets may be about.
type limit struct {
	*Service
	who     *principal.Session
	request string
	absent  []int64 // jobs that it named and that do not exist for it
	inVain  bool    // none of those exists that it would have changed
}

// narrow takes out of a request, given by its address, what does not exist for who asks; nothing is left of it
// where some is false.
func (l *limit) narrow(ctx context.Context, query any) (some bool, err error) {
	var targets *[]string
	var ids *[]jobnet.Whole
	switch q := query.(type) {
	case *api.None: // only status: others need all targets
		return true, nil
	case *api.JobsQuery, *api.RatesQuery: // where no target is named, the index tells which it has: Service.had
		return true, nil
	case *api.Target, *api.Slots, *api.UnfinishedQuery:
		return true, nil // named, and had
	case *api.OutputQuery:
		ids = &[]jobnet.Whole{q.Job}
	case *api.Signals:
		had, err := l.jobs(ctx, slices.Collect(maps.Keys(q.Jobs)))
		all := q.Jobs
		q.Jobs = make(map[jobnet.Whole]int, len(had))
		for _, id := range had {
			q.Jobs[id] = all[id]
		}
		probes := !slices.ContainsFunc(slices.Collect(maps.Values(all)), func(signo int) bool { return signo != 0 })
		l.inVain = len(l.absent) > 0 && len(had) == 0 && !probes
		return true, err
	case *api.Targets:
		targets = &q.Targets
	case *api.RunningQuery:
		targets = &q.Targets
	case *api.WaitingQuery:
		targets, q.Others = &q.Targets, q.Others && l.who.All()
	case *api.RecurringQuery:
		targets = &q.Targets
	case *api.RowsQuery:
		targets = &q.Targets
	case *api.Manual:
		ids = &q.IDs
	case *api.CancelQuery:
		ids = &q.IDs
	case *api.RetryRows:
		ids = &q.IDs
	case *api.PlanRows:
		ids = &q.IDs
	case *api.ExplainQuery:
		ids = &q.IDs
	}
	switch {
	case targets != nil:
		*targets = l.those(*targets)
		return len(*targets) > 0, nil
	case ids != nil:
		*ids, err = l.jobs(ctx, *ids)
		l.inVain = len(l.absent) > 0 && len(*ids) == 0
		return len(*ids) > 0, err
	}
	panic(fmt.Sprintf("nobody has said what of %T exists for somebody who has not all targets", query))
}

// those are the targets that a request names, or else those that are served here and had.
func (l *limit) those(named []string) []string {
	if named != nil {
		return named
	}
	status := l.Worker.Status()
	served := slices.Sorted(maps.Keys(status.Targets))
	if l.request == api.Recycle.Name { // which refuses those without processes
		served = nil
		for _, e := range executors(status.Executors) {
			if e.Pooled() {
				served = append(served, e.Target)
			}
		}
	}
	return slices.DeleteFunc(served, func(target string) bool { return !l.who.Targets.Reach(target) })
}

// rowsAtOnce is how many rows are looked at at once.
const rowsAtOnce = 500

// jobs are those of the named ones that exist for who asks: by the claim of those that are under way here, else
// by their rows.
func (l *limit) jobs(ctx context.Context, named []jobnet.Whole) (had []jobnet.Whole, err error) {
	if l.who.All() {
		return named, nil
	}
	ids, served := int64s(named), slices.Sorted(maps.Keys(l.Worker.Status().Targets))
	targets := make(map[int64]string, len(ids))
	for some := range slices.Chunk(ids, rowsAtOnce) {
		for id, known := range l.Worker.Explain(some) {
			if known.Standing != nil {
				targets[id] = known.Standing.Target
			}
		}
	}
	rest := slices.DeleteFunc(slices.Clone(ids), func(id int64) bool { _, here := targets[id]; return here })
	if len(rest) > 0 {
		done, err := l.Look(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	for some := range slices.Chunk(rest, rowsAtOnce) {
		inTime, cancel := context.WithTimeout(ctx, tableTime) // of these: a request may name any number
		rows, err := l.Table.Details(inTime, some, served, 0)
		cancel()
		if err != nil {
			return nil, l.unlisted("the rows of these jobs", err)
		}
		for id, row := range rows {
			targets[id] = cmp.Or(row.Served, row.Target)
		}
	}
	for i, id := range ids {
		if target, exists := targets[id]; exists && l.who.Targets.Reach(target) {
			had = append(had, named[i])
		} else {
			l.absent = append(l.absent, id)
		}
	}
	return had, nil
}

// cut tells in an answer which jobs are not found, and takes out of it the targets that who asks has not.
func (l *limit) cut(query, answer any) any {
	switch a := answer.(type) {
	case api.WorkerStatus:
		maps.DeleteFunc(a.Targets, func(target string, _ api.TargetStatus) bool { return !l.who.Targets.Reach(target) })
		a.Quarantined = slices.DeleteFunc(a.Quarantined, func(row api.QuarantinedRow) bool {
			return !l.who.Targets.Reach(row.Target) || !l.who.Scope.Has(principal.Read)
		})
		a.QuarantinedCount = len(a.Quarantined)
		a.Executors = slices.DeleteFunc(a.Executors, func(e api.ExecutorStatus) bool { return !l.who.Targets.Reach(e.Target) })
		for i := range a.NotReady { // in the words of any target's program
			a.NotReady[i].Why = ""
		}
		if !l.who.Scope.Has(principal.Read) {
			withoutWords(&a)
		}
		return a
	case api.Outcomes:
		a.Errors = l.notFound(a.Errors)
		return a
	case api.RetriedRows:
		a.Errors = l.notFound(a.Errors)
		return a
	case api.PlannedRows:
		a.Errors = l.notFound(a.Errors)
		return a
	case api.CancelAnswer:
		if query.(api.CancelQuery).Rows {
			a.Errors = l.notFound(a.Errors)
		}
		return a
	case api.Delivered:
		if a.Jobs == nil {
			a.Jobs = make(map[string]bool)
		}
		for _, id := range l.absent {
			a.Jobs[strconv.FormatInt(id, 10)] = false
		}
		return a
	case api.Explained:
		a.Targets = slices.DeleteFunc(slices.Clone(a.Targets), func(target string) bool { return !l.who.Targets.Reach(target) })
		known := make(map[jobnet.Whole]api.ExplainedJob, len(a.Jobs))
		for _, job := range a.Jobs {
			known[job.Job] = job
		}
		a.Jobs = nil
		for _, id := range query.(api.ExplainQuery).IDs {
			job := known[id]
			job.Job = id
			a.Jobs = append(a.Jobs, job)
		}
		return a
	case api.JobOutput:
		if a.Job == 0 {
			return api.JobOutput{Job: query.(api.OutputQuery).Job, State: api.OutputUnknown}
		}
		return a
	}
	return answer
}

// notFound adds the jobs that do not exist to the errors of an answer.
func (l *limit) notFound(errs map[jobnet.Whole]string) map[jobnet.Whole]string {
	if errs == nil && len(l.absent) > 0 {
		errs = make(map[jobnet.Whole]string, len(l.absent))
	}
	for _, id := range l.absent {
		errs[jobnet.Whole(id)] = fmt.Sprintf("job %d not found", id)
	}
	return errs
}

// withoutWords leaves numbers of a status: no words of programs, and nobody's name.
func withoutWords(status *api.WorkerStatus) {
	for name, target := range status.Targets {
		target.Why, target.PausedBy = "", ""
		status.Targets[name] = target
	}
	for i := range status.Executors {
		e := &status.Executors[i]
		e.Unready, e.Failing, e.Stranger = "", "", ""
	}
}

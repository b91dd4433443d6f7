package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/cmd/internal/screen"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Cancelled is what became of a job, and which worker did it.
type Cancelled struct {
	api.CancelledJob
	Worker string `json:"worker,omitempty"`
}

// Unfinished gives the jobs of a target that wait or run, or only those that wait, the first ones: more
// tells that there are others. note is told who did not answer, where somebody else tells of the same rows.
func Unfinished(ctx context.Context, d *Daemon, target string, waiting bool, note func(error)) (jobs []Job, more bool, err error) {
	all, err := All[api.UnfinishedJobs](ctx, d, api.Unfinished.Name, api.UnfinishedQuery{Target: target, Waiting: waiting})
	if err != nil {
		return nil, false, err
	}
	if mute := Silent(all); mute != nil {
		if len(answered(all)) == 0 {
			return nil, false, mute
		}
		note(mute)
	}
	seen := map[jobnet.Whole]bool{}
	for _, one := range all {
		more = more || one.Value.More
		for _, id := range one.Value.Jobs {
			seen[id] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		jobs = append(jobs, Job{Target: target, ID: id})
	}
	if len(jobs) > api.MostCancelled {
		jobs, more = jobs[:api.MostCancelled], true
	}
	return jobs, more, nil
}

// Cancelling has jobs cancelled: each is, or it is known why not.
type Cancelling struct {
	Daemon   *Daemon
	Grace    time.Duration
	Schedule bool // rows that recur end, running or not

	Done   map[jobnet.Whole]Cancelled
	Failed map[jobnet.Whole]string
	Mute   error // workers that did not answer

	targets map[jobnet.Whole]string // of the jobs
	left    []jobnet.Whole          // of which nothing is known yet
}

// A claim at the same moment takes a row from under the eyes of whoever looks for it: workers are
// asked again, so often, with pauses that grow; not where one is silent, which may have them. One
// request is about so many jobs at most.
const (
	cancelOnce   = 1000 // jobs
	cancelRounds = 5
	cancelPause  = 100 * time.Millisecond
)

// Run cancels jobs.
func (c *Cancelling) Run(ctx context.Context, jobs []Job) error {
	c.Done, c.Failed, c.targets = map[jobnet.Whole]Cancelled{}, map[jobnet.Whole]string{}, map[jobnet.Whole]string{}
	for _, job := range jobs {
		if job.Target != "" {
			c.targets[job.ID] = job.Target
		}
	}
	for some := range slices.Chunk(ids(jobs), cancelOnce) {
		c.left = some
		if err := c.rounds(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rounds asks in rounds. Of a master all workers are asked first, for jobs that they have: then one
// of them, for rows that nobody has.
func (c *Cancelling) rounds(ctx context.Context) error {
	for round := 1; ; round++ {
		all, err := All[api.CancelAnswer](ctx, c.Daemon, api.Cancel.Name, c.query(c.left, !c.Daemon.Master))
		if err != nil {
			return err
		}
		c.Mute = Silent(all)
		elsewhere := map[jobnet.Whole]api.ClaimedRow{}
		for _, one := range all {
			c.take(one.From, one.Value, elsewhere)
		}
		if c.Daemon.Master && len(c.left) > 0 {
			if err := c.rows(ctx, answered(all), elsewhere); err != nil {
				return err
			}
		}
		if len(c.left) == 0 {
			return nil
		}
		if round == cancelRounds || c.Mute != nil {
			c.giveUp(elsewhere)
			return nil
		}
		select {
		case <-time.After(time.Duration(round) * cancelPause):
		case <-ctx.Done():
			return exit.Why(ctx, ctx.Err())
		}
	}
}

// notRunHere is how a worker refuses a delayed row that others may run: it does not use the columns for that.
const notRunHere = "delayed rows are not run here"

// rows asks for rows that nobody has: for those of each target a worker that serves it, and where that one does
// not run delayed rows, the next.
func (c *Cancelling) rows(ctx context.Context, workers []*Worker, elsewhere map[jobnet.Whole]api.ClaimedRow) error {
	found := map[jobnet.Whole]history.Row{}
	if len(workers) > 1 {
		c.Daemon.noteTargets(ctx, workers)
		found, _ = Rows(ctx, workers, c.left) // whose rows can't be read any worker is asked for
	}
	of := map[string][]jobnet.Whole{}
	for _, id := range c.left {
		of[found[id].Target] = append(of[found[id].Target], id)
	}
	for _, target := range slices.Sorted(maps.Keys(of)) {
		left, next := of[target], servingFirst(target, workers)
		for again := true; again; {
			answer, by, err := first[api.CancelAnswer](ctx, next, api.Cancel.Name, c.query(left, true), true)
			if err != nil {
				return err
			}
			c.take(by, answer, elsewhere)
			left = slices.DeleteFunc(left, func(id jobnet.Whole) bool { return !strings.Contains(answer.Errors[id], notRunHere) })
			next = next[slices.Index(next, by)+1:]
			again = len(left) > 0 && len(next) > 0 && next[0].serves(target)
		}
	}
	return nil
}

// query is the request about some jobs.
func (c *Cancelling) query(jobs []jobnet.Whole, rows bool) api.CancelQuery {
	grace := c.Grace.Milliseconds()
	q := api.CancelQuery{IDs: jobs, Grace: &grace, Rows: rows, Schedule: c.Schedule, Targets: make(map[jobnet.Whole]string)}
	for _, id := range jobs {
		if target, named := c.targets[id]; named {
			q.Targets[id] = target
		}
	}
	return q
}

// take notes what a worker has answered, and in elsewhere the rows that others have, as it says.
func (c *Cancelling) take(from *Worker, answer api.CancelAnswer, elsewhere map[jobnet.Whole]api.ClaimedRow) {
	for id, job := range answer.Jobs {
		c.Done[id] = Cancelled{job, from.Name}
		delete(c.Failed, id)
	}
	for id, why := range answer.Errors {
		if _, did := c.Done[id]; !did {
			if c.Failed[id] = why; from.Name != "" {
				c.Failed[id] = strings.Replace(why, notRunHere, "delayed rows are not run by "+from.Name, 1)
			}
		}
	}
	maps.Copy(elsewhere, answer.Elsewhere)
	c.left = slices.DeleteFunc(slices.Clone(c.left), func(id jobnet.Whole) bool {
		_, did := c.Done[id]
		_, refused := c.Failed[id]
		return did || refused
	})
}

// giveUp tells of jobs that are left what their rows say.
func (c *Cancelling) giveUp(elsewhere map[jobnet.Whole]api.ClaimedRow) {
	for _, id := range c.left {
		c.Failed[id] = "no worker that was asked has it"
		if row, there := elsewhere[id]; there {
			c.Failed[id] = fmt.Sprintf("its row is %s, and bears no claim: no worker runs it", screen.Clean(row.Status))
			if row.Owner != "" {
				c.Failed[id] = fmt.Sprintf("its row is %s, with the token %s, of a worker that was not asked", screen.Clean(row.Status), screen.Clean(row.Owner))
			}
			if c.Mute != nil {
				c.Failed[id] += ", or does not answer, and may still cancel it"
			}
		}
	}
}

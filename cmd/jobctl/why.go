package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/reason"
	jobnet "jobd/net"
	"jobd/net/api"
)

// explained is what the workers have told of some jobs.
type explained struct {
	answers []told[api.Explained]
}

// explain asks all workers about jobs.
func explain(ctx context.Context, c *client, jobs []jobRef, probe bool) (explained, error) {
	query := api.ExplainQuery{Output: true, Probe: probe}
	for _, job := range jobs {
		if !slices.Contains(query.IDs, job.id) {
			query.IDs = append(query.IDs, job.id)
		}
	}
	answers, err := askFleet[api.Explained](ctx, c, api.Explain.Name, query)
	return explained{answers}, err
}

// why is the verdict on a job.
func (e explained) why(p *program, job jobRef) reason.Verdict {
	answers := make([]reason.Answer, len(e.answers))
	for i, a := range e.answers {
		answers[i] = reason.Answer{Name: a.from.name, Explained: a.answer, Err: a.err}
	}
	return reason.Of(reason.Question{Job: int64(job.id), Target: job.target, Master: p.config.master, Now: p.now(), Location: p.location}, answers)
}

// probe asks one worker, which can read the table, what only the server can tell of some jobs: two
// that asked at once would take each other for somebody who holds the row. Where that fails, the
// jobs are explained without.
func (e explained) probe(ctx context.Context, ids []jobnet.Whole) error {
	at := slices.IndexFunc(e.answers, func(a told[api.Explained]) bool { return a.err == nil && a.answer.Table == "" })
	if at < 0 || len(ids) == 0 {
		return nil
	}
	one := &e.answers[at]
	var answer api.Explained
	if err := one.from.ask(ctx, api.Explain.Name, fieldsOf(api.ExplainQuery{IDs: ids, Probe: true}), &answer); err != nil {
		return err
	}
	for _, probed := range answer.Jobs {
		for i := range one.answer.Jobs {
			if job := &one.answer.Jobs[i]; job.Job == probed.Job {
				probed.Row = withOutput(probed.Row, job.Row)
				*job = probed
			}
		}
	}
	return nil
}

// served notes which targets those serve who have told nothing, as their master knows it.
func (e explained) served(ctx context.Context, c *client) {
	silent := func(a told[api.Explained]) bool { return a.err != nil }
	if !c.master || !slices.ContainsFunc(e.answers, silent) {
		return
	}
	var status masterStatus
	if c.askInto(ctx, api.MasterStatus.Name, api.Polling{}, &status) != nil {
		return // then it is not known
	}
	for i := range e.answers {
		for _, w := range status.Workers {
			if a := &e.answers[i]; a.err != nil && a.from.address == net.JoinHostPort(w.RemoteAddr, strconv.Itoa(w.RemotePort)) {
				a.answer.Targets = append([]string{}, w.Targets...)
			}
		}
	}
}

// withOutput is a row that was read without its output, with what was read of that before.
func withOutput(row, before *api.JobRow) *api.JobRow {
	if row != nil && before != nil {
		row.Stdout, row.Stderr = before.Stdout, before.Stderr
	}
	return row
}

// verdicts gives the verdict on each of some jobs, which one request may be about. Workers that
// did not answer are told of.
func (p *program) verdicts(ctx context.Context, c *client, jobs []jobRef) (explained, []reason.Verdict, error) {
	e, err := explain(ctx, c, jobs, false)
	if err != nil {
		return e, nil, err
	}
	e.served(ctx, c)
	var ids []jobnet.Whole
	for _, job := range jobs {
		if e.why(p, job).Probe && !slices.Contains(ids, job.id) {
			ids = append(ids, job.id)
		}
	}
	if err := e.probe(ctx, ids); err != nil {
		p.note(err)
	}
	verdicts := make([]reason.Verdict, len(jobs))
	for i, job := range jobs {
		verdicts[i] = e.why(p, job)
	}
	return e, verdicts, nil
}

// noteSilent tells of the workers that did not answer, and gives nil: the others' answers count.
func (e explained) noteSilent(p *program) {
	if err := silent(e.answers); err != nil {
		for _, one := range unjoined(err) {
			p.note(one)
		}
	}
}

// unjoined takes errors apart that errors.Join has put together.
func unjoined(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

func (p *program) why() *ffcli.Command {
	c := command("why", "why ID… | T:ID…", "one sentence: where a job is, and what it waits for", func(ctx context.Context, args []string) error {
		jobs, err := jobRefs("why", args, api.MostJobs)
		if err != nil {
			return err
		}
		return p.linked(ctx, func(ctx context.Context, c *client) error {
			if err := c.expect(ctx); err != nil {
				return err
			}
			return p.sayWhy(ctx, c, jobs)
		})
	})
	c.LongHelp = "  jobctl why 5\n  jobctl --master why 5 mail:6\n  jobctl why 5 --output json | jq -r .reason"
	return c
}

// sayWhy prints a sentence about each job. Where one is not explained, that is the exit code.
func (p *program) sayWhy(ctx context.Context, c *client, jobs []jobRef) error {
	var unknown []error
	told := false
	for some := range slices.Chunk(jobs, api.MostExplained) {
		e, verdicts, err := p.verdicts(ctx, c, some)
		if err != nil {
			return err
		}
		if !told {
			e.noteSilent(p)
			told = true
		}
		for i, verdict := range verdicts {
			unknown = append(unknown, unexplained(verdict))
			if err := p.sayVerdict(some[i], verdict); err != nil {
				return err
			}
		}
	}
	return exit.Join(unknown...)
}

// unexplained is the exit code of a verdict that does not say where a job is, without a text: the
// sentence says why. Of all others it is nil.
func unexplained(v reason.Verdict) error {
	switch v.Reason {
	case reason.NoSuchJob, reason.OtherTarget:
		return exit.With(exit.NoJob, errTold)
	case reason.Unreadable:
		return exit.With(exit.Unknown, errTold)
	}
	return nil
}

// verdictForm is a verdict as jobctl prints it for programs.
type verdictForm struct {
	Job      jobnet.Whole `json:"job"`
	Reason   reason.Code  `json:"reason"`
	Sentence string       `json:"sentence"`
	Worker   string       `json:"worker,omitempty"`
}

func formOf(job jobRef, v reason.Verdict) verdictForm {
	return verdictForm{job.id, v.Reason, v.Sentence, v.Worker}
}

// sayVerdict prints one verdict.
func (p *program) sayVerdict(job jobRef, v reason.Verdict) error {
	if p.json() {
		return p.printJSON(formOf(job, v))
	}
	_, err := fmt.Fprintln(p.out, p.paint(clean(v.Sentence), toneOfReason(v.Reason)))
	return err
}

// toneOfReason is the tone of a verdict.
func toneOfReason(r reason.Code) tone {
	switch r {
	case reason.Done:
		return good
	case reason.Failed, reason.Killed, reason.TimedOut, reason.Stopped, reason.BadSchedule, reason.Unknown, reason.NoSuchJob, reason.Unreadable:
		return bad
	case reason.Running, reason.Waiting, reason.Slots, reason.Next, reason.Prefetched, reason.Starting, reason.Claimed, reason.Manual, reason.Ended,
		reason.Delayed, reason.Recurring:
		return plain
	}
	return odd
}

// tally is a target, added up over the workers that serve it and have answered.
type tally struct {
	Target     string
	Workers    int // that serve it
	Untold     int // of those, how many can't tell what runs
	Paused     int // how many have it paused; see stands
	Unable     int // how many others can start no job of it
	Slots      int
	Running    int // slots in use, of those that tell
	Prefetched int
	Started    int // within the last minute
	Ended      int
	Failed     int
}

// tallies adds up all targets, by name. Those that were poked and are served by nobody are not
// among them.
func (s *census) tallies() []tally {
	all := make(map[string]tally)
	for _, w := range s.workers {
		if w.err != nil {
			continue
		}
		for name, target := range w.answer.Targets {
			t := all[name]
			t.Target = name
			t.Workers++
			t.Slots += target.Concurrency
			switch {
			case target.Paused:
				t.Paused++
			case w.answer.Stuck(name):
				t.Unable++
			}
			if !tellsMore(w.answer) {
				t.Untold++
			}
			t.Running += target.Running
			t.Prefetched += target.Prefetched
			t.Started += target.Started
			t.Ended += target.Ended
			t.Failed += target.Failed
			all[name] = t
		}
	}
	tallies := make([]tally, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		tallies = append(tallies, all[name])
	}
	return tallies
}

// stands tells whether nobody starts jobs of the target, since all who serve it have it paused, or
// can't.
func (t tally) stands() bool { return t.Paused+t.Unable > 0 && t.Paused+t.Unable == t.Workers }

// why says of a target that stands why it does, as an aside within a sentence; of another one nothing.
func (t tally) why() string {
	switch {
	case !t.stands():
		return ""
	case t.Unable == 0:
		return ", which is paused,"
	}
	return ", whose jobs can't be started,"
}

// meantTargets adds to a refusal that says that a target is not found which one was probably meant:
// the daemon is asked what it serves. Where it does not say, the refusal stands as it is.
func (p *program) meantTargets(ctx context.Context, err error, names []string) error {
	var refused *jobnet.RemoteError
	if !errors.As(err, &refused) {
		return err
	}
	near := p.nearTargets(ctx)
	for _, name := range names {
		if strings.Contains(refused.Text, "target '"+clean(name)+"' not found") {
			err = fmt.Errorf("%w%s", err, near(name))
		}
	}
	return err
}

// nearTargets gives the end of a sentence that names the target that was probably meant; "" where no
// name is near. The daemon is asked once, when the first one is looked for.
func (p *program) nearTargets(ctx context.Context) func(name string) string {
	served := sync.OnceValue(func() []string {
		ctx, cancel := context.WithTimeout(ctx, completeLimit)
		defer cancel()
		return p.served(ctx)
	})
	return func(name string) string {
		if near := conf.Nearest(name, served()); near != "" {
			return "; the nearest known one is " + clean(near)
		}
		return ""
	}
}

// noteUnserved says on stderr that a target, for which nothing was found, is served by nobody who
// can be asked: perhaps it is misspelt. Where the daemon does not tell, nothing is said.
func (p *program) noteUnserved(ctx context.Context, target string) {
	ctx, cancel := context.WithTimeout(ctx, completeLimit)
	defer cancel()
	if target == "" {
		return
	}
	served := p.served(ctx)
	if len(served) == 0 || slices.Contains(served, target) {
		return
	}
	who, near := "the worker does not serve it", ""
	if p.config.master {
		who = "no worker serves it"
	}
	if name := conf.Nearest(target, served); name != "" {
		near = "; the nearest known one is " + clean(name)
	}
	fmt.Fprintf(p.err, "jobctl: target '%s': %s%s\n", clean(target), who, near)
}

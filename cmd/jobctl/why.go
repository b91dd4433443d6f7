package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/reason"
	jobnet "jobd/net"
	"jobd/net/api"
)

// explain asks all workers about jobs, which one request may be about. What could not be probed is told.
func (p *program) explain(ctx context.Context, d *operator.Daemon, jobs []operator.Job) (*operator.Explanation, error) {
	e, err := operator.Explain(ctx, d, jobs, operator.Clock{Now: p.now(), Location: p.location})
	if err == nil && e.Unprobed != nil {
		p.note(e.Unprobed)
	}
	return e, err
}

// noteSilent tells of the workers that did not answer: the others' answers count.
func noteSilent[A any](p *program, answers []operator.Answer[A]) {
	if err := operator.Silent(answers); err != nil {
		for _, one := range unjoined(err) {
			p.note(one)
		}
	}
}

// unjoined takes errors apart that errors.Join has put together.
func unjoined(err error) []error {
	if err == nil {
		return nil
	}
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
		return p.linked(ctx, func(ctx context.Context, d *operator.Daemon) error { return p.sayWhy(ctx, d, jobs) })
	})
	c.LongHelp = "  jobctl why 5\n  jobctl --master why 5 mail:6\n  jobctl why 5 --output json | jq -r .reason"
	return c
}

// sayWhy prints a sentence about each job. Where one is not explained, that is the exit code.
func (p *program) sayWhy(ctx context.Context, d *operator.Daemon, jobs []operator.Job) error {
	var unknown []error
	for some := range slices.Chunk(jobs, api.MostExplained) {
		e, err := p.explain(ctx, d, some)
		if err != nil {
			return err
		}
		if some[0] == jobs[0] {
			noteSilent(p, e.Answers)
		}
		for i, verdict := range e.Verdicts {
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

func formOf(job operator.Job, v reason.Verdict) verdictForm {
	return verdictForm{job.ID, v.Reason, v.Sentence, v.Worker}
}

// sayVerdict prints one verdict.
func (p *program) sayVerdict(job operator.Job, v reason.Verdict) error {
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

// why says of a target that stands why it does, as an aside within a sentence; of another one nothing.
func whyStands(t operator.Tally) string {
	switch {
	case !t.Stands():
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

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	jobnet "jobd/net"
	"jobd/net/api"
)

func (p *program) retry() *ffcli.Command {
	r := retrying{program: p, wish: failedWish{since: timeFlag{p: p}, most: 0, code: -1}}
	code, anyCode := 0, true
	c := command("retry", "retry ID… | T:ID… | --failed [--since TIME] [--target T] [--code N]", "set jobs that are done or ignored back to waiting or manual, to be run once more", func(ctx context.Context, args []string) (err error) {
		if !anyCode {
			r.wish.code = code
		}
		switch {
		case r.failed && len(args) > 0:
			return wrongUsage("retry: IDs and --failed are not allowed together")
		case r.failed:
		case !anyCode || r.wish.target != "" || !r.wish.since.at.IsZero():
			return wrongUsage("retry: --since, --target and --code are for --failed")
		default:
			if r.jobs, err = p.someJobs("retry", args); err != nil {
				return err
			}
		}
		return p.read(ctx, nil, r.run)
	})
	c.LongHelp = "  jobctl retry 4711\n  jobctl --master retry --failed --since 2h --target mail --code 75 --dry-run"
	r.wish.flags(c)
	c.FlagSet.BoolVar(&r.failed, "failed", false, "those that failed and were not retried since, as failed lists them")
	c.FlagSet.Func("code", "with --failed: only those with this exit code", func(text string) error {
		if _, err := fmt.Sscanf(text+" ", "%d ", &code); err != nil || code < 0 || code > 255 || fmt.Sprint(code) != text {
			return fmt.Errorf("%q is not allowed; allowed is 0 to 255", text)
		}
		anyCode = false
		return nil
	})
	c.FlagSet.BoolVar(&r.manual, "manual", false, "set them back to manual, whatever they were")
	c.FlagSet.BoolVar(&r.dry, "dry-run", false, "only tell which they are")
	c.FlagSet.BoolVar(&r.yes, "yes", false, "do not ask")
	return c
}

// retrying is one run of retry.
type retrying struct {
	*program
	jobs             []jobRef // none: those that failed
	wish             failedWish
	failed           bool
	manual, dry, yes bool

	refused map[jobnet.Whole]string // why jobs that were named can't be set back
	errs    []error
}

// again is a job that is to be set back.
type again struct {
	id       int64
	finished int64   // the row's time_finished: another end is not meant
	ignored  bool    // it was not run
	from     *remote // that ran it last; nil: no journal that answers knows
	target   string
	how      string // it ended, in a word or two
}

// run finds the jobs, asks, and has workers set their rows back: of each the one that ran it last,
// so that its journal goes on to agree with the row; else any.
func (r *retrying) run(ctx context.Context, j *journals) error {
	r.refused = map[jobnet.Whole]string{}
	list, err := r.find(ctx, j)
	if err != nil {
		return err
	}
	switch {
	case len(list) == 0 && len(r.errs) > 0 && r.json() && !r.dry:
		return errors.Join(r.tell(nil, api.RetriedRows{}), joined(r.errs))
	case len(list) == 0 && len(r.errs) > 0:
		return joined(r.errs)
	case len(list) == 0:
		if r.failed {
			r.noteUnserved(ctx, r.wish.target)
		}
		return r.sayNone("no job is to be set back")
	case r.dry:
		return r.tellAll(list)
	case r.failed && !r.yes:
		if err := r.confirm(ctx, r.question(list)); err != nil {
			return err
		}
	}
	return r.setBack(ctx, j, list)
}

// find finds the jobs that are to be set back, and notes why others are not.
func (r *retrying) find(ctx context.Context, j *journals) ([]again, error) {
	if !r.failed {
		return r.named(ctx, j)
	}
	found, err := r.collect(ctx, j, r.wish.grouped(r.now()))
	if err == nil {
		err = found.unchecked
	}
	if err != nil {
		return nil, err
	}
	var list []again
	for _, f := range found.all {
		if f.row == "" { // what was deleted can't be run, and what comes back is not to be set back
			list = append(list, again{id: f.job, finished: f.ended.Unix(), from: f.from, target: f.target, how: "failed with " + f.exit()})
		}
	}
	return list, nil
}

// question says what is to be done.
func (r *retrying) question(list []again) string {
	counts := map[string]int{}
	for _, one := range list {
		counts[one.target]++
	}
	targets := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] })
	const few = 5
	var parts []string
	for _, target := range targets[:min(len(targets), few)] {
		parts = append(parts, fmt.Sprintf("%s %d", clean(target), counts[target]))
	}
	if more := len(targets) - few; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more targets", more))
	}
	return fmt.Sprintf("%s that failed since %s (%s) would be run once more.", jobsText(len(list)),
		r.clock(r.wish.grouped(r.now()).since.at), strings.Join(parts, ", "))
}

// jobsText is how many jobs.
func jobsText(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

// tellAll tells which jobs would be set back.
func (r *retrying) tellAll(list []again) error {
	found := r.report(true, "", "JOB", "TARGET", "HOW IT ENDED")
	found.table.elastic = "TARGET"
	for _, one := range list {
		form := struct {
			Worker string       `json:"worker,omitempty"`
			Job    jobnet.Whole `json:"job"`
			Target string       `json:"target"`
			How    string       `json:"how"`
		}{one.worker(), jobnet.Whole(one.id), one.target, one.how}
		if err := found.add(one.worker(), form, plain, one.id, one.target, one.how); err != nil {
			return found.end(err)
		}
	}
	if err := found.end(joined(r.errs)); err != nil {
		return err
	}
	return r.sayNone(jobsText(len(list)) + " would be set back")
}

// worker is the name of the one that ran the job last; "" where that is not known.
func (a again) worker() string {
	if a.from == nil {
		return ""
	}
	return a.from.worker()
}

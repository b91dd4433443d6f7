package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"
	"golang.org/x/sys/unix"

	"jobd/cmd/internal/exit"
	jobnet "jobd/net"
	"jobd/net/api"
)

func (p *program) cancel() *ffcli.Command {
	w := cancelWish{grace: api.DefaultGrace * time.Millisecond}
	c := command("cancel", "cancel [--grace D] [--schedule] ID… | T:ID… | --target T [--waiting]", "have jobs not run: what has not started is ignored, what runs gets SIGTERM, and later SIGKILL", func(ctx context.Context, args []string) (err error) {
		var jobs []jobRef
		switch {
		case w.target == "" && (w.waiting || w.dry || w.yes):
			return wrongUsage("cancel: --waiting, --dry-run and --yes are for --target")
		case w.target != "" && len(args) > 0:
			return wrongUsage("cancel: IDs and --target are not allowed together")
		case w.target != "":
			jobs, err = p.unfinished(ctx, w)
		default:
			jobs, err = jobRefs("cancel", args, api.MostCancelled)
		}
		if err != nil || len(jobs) == 0 {
			return err
		}
		return p.cancelJobs(ctx, jobs, w)
	})
	c.FlagSet.StringVar(&w.target, "target", "", "all jobs of this target that wait or run, after a question")
	c.FlagSet.BoolVar(&w.waiting, "waiting", false, "with --target: only those that have not been started")
	c.FlagSet.BoolVar(&w.dry, "dry-run", false, "with --target: only tell which they are")
	c.FlagSet.BoolVar(&w.yes, "yes", false, "with --target: do not ask")
	c.FlagSet.Var(lengthFlag{length: &w.grace, most: api.LongestGrace * time.Millisecond}, "grace", fmt.Sprintf("how long a job that runs gets between SIGTERM and SIGKILL, such as 30s; 0: both at once (default: %v)", w.grace))
	c.FlagSet.BoolVar(&w.schedule, "schedule", false, "of rows that recur: end them, whether they run or not; without it only the run that is under way ends")
	c.LongHelp = "  jobctl cancel 4711\n  jobctl --master cancel --grace 1m mail:4711 4712\n  jobctl --master cancel --target mail --waiting"
	return c
}

// cancelWish is what is to be cancelled, and how.
type cancelWish struct {
	grace    time.Duration
	schedule bool   // rows that recur end, running or not
	target   string // all of its jobs; "": those that were named
	waiting  bool   // of these only those that have not been started
	dry, yes bool
}

// unfinished asks for the jobs of a target that are to be cancelled, and whether that is meant. There are
// none where it is not, or where they are only to be shown.
func (p *program) unfinished(ctx context.Context, w cancelWish) (jobs []jobRef, err error) {
	seen, more := map[jobnet.Whole]bool{}, false
	err = p.linked(ctx, func(ctx context.Context, c *client) error {
		if err := c.expect(ctx); err != nil {
			return err
		}
		all, err := askFleet[api.UnfinishedJobs](ctx, c, api.Unfinished.Name, api.UnfinishedQuery{Target: w.target, Waiting: w.waiting})
		if mute := silent(all); err == nil && mute != nil { // others tell of the same rows
			if !slices.ContainsFunc(all, func(one told[api.UnfinishedJobs]) bool { return one.err == nil }) {
				return mute
			}
			fmt.Fprintf(p.err, "jobctl: %v\n", mute)
		}
		for _, one := range all {
			more = more || one.answer.More
			for _, id := range one.answer.Jobs {
				seen[id] = true
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		jobs = append(jobs, jobRef{target: w.target, id: id})
	}
	jobs = jobs[:min(len(jobs), api.MostCancelled)]
	question := fmt.Sprintf("%s of target %s would be cancelled", jobsText(len(jobs)), clean(w.target))
	if more || len(seen) > len(jobs) {
		question += ", and there are more"
	}
	switch {
	case len(jobs) == 0:
		p.noteUnserved(ctx, w.target)
		return nil, p.sayNone("no job is to be cancelled")
	case w.dry:
		found := p.report(false, "", "JOB", "TARGET")
		for _, job := range jobs {
			if err := found.add("", nil, plain, job.id, w.target); err != nil {
				return nil, found.end(err)
			}
		}
		return nil, found.end(nil)
	case !w.yes:
		return jobs, p.confirm(ctx, question+".")
	}
	return jobs, nil
}

// cancelled is what became of a job, and which worker did it.
type cancelled struct {
	api.CancelledJob
	Worker string `json:"worker,omitempty"`
}

// cancelRun asks one worker, or all of a master's, until each job is cancelled, or it is known why
// not.
type cancelRun struct {
	*program
	client *client
	wish   cancelWish
	refs   map[jobnet.Whole]string // targets of the jobs
	left   []jobnet.Whole          // of which nothing is known yet
	done   map[jobnet.Whole]cancelled
	failed map[jobnet.Whole]string
	mute   error // workers that did not answer
}

// A claim at the same moment takes a row from under the eyes of whoever looks for it: workers are
// asked again, so often, with pauses that grow. One request is about so many jobs at most.
const (
	cancelOnce   = 1000 // jobs
	cancelRounds = 5
	cancelPause  = 100 * time.Millisecond
)

func (p *program) cancelJobs(ctx context.Context, jobs []jobRef, w cancelWish) error {
	r := cancelRun{
		program: p, wish: w, refs: make(map[jobnet.Whole]string),
		done: make(map[jobnet.Whole]cancelled), failed: make(map[jobnet.Whole]string),
	}
	for _, job := range jobs {
		if job.target != "" {
			r.refs[job.id] = job.target
		}
	}
	err := p.linked(ctx, func(ctx context.Context, c *client) error {
		if err := c.expect(ctx); err != nil {
			return err
		}
		r.client = c
		for some := range slices.Chunk(jobs, cancelOnce) {
			r.left = nil
			for _, job := range some {
				r.left = append(r.left, job.id)
			}
			if err := r.run(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && len(r.done)+len(r.failed) == 0 {
		return errors.Join(mayBeDone(err, api.Cancel.Name), r.mute)
	}
	if shown := r.show(jobs); shown != nil {
		return shown
	}
	if len(r.failed) == 0 {
		r.mute = nil // nobody else was needed
	}
	return exit.Join(r.errors(jobs), mayBeDone(err, api.Cancel.Name), r.mute)
}

// query is the request about what is left.
func (r *cancelRun) query(rows bool) api.CancelQuery {
	grace := r.wish.grace.Milliseconds()
	q := api.CancelQuery{IDs: r.left, Grace: &grace, Rows: rows, Schedule: r.wish.schedule, Targets: make(map[jobnet.Whole]string)}
	for _, id := range r.left {
		if target, named := r.refs[id]; named {
			q.Targets[id] = target
		}
	}
	return q
}

// run asks in rounds. Of a master all workers are asked first, for jobs that they have: then one of
// them, for rows that nobody has.
func (r *cancelRun) run(ctx context.Context) error {
	var all []told[api.CancelAnswer]
	for round := range cancelRounds {
		var err error
		if all, err = r.askAll(ctx, all); err != nil {
			return err
		}
		elsewhere := r.take(all...)
		if r.client.master && len(r.left) > 0 {
			if elsewhere, err = r.askOne(ctx, all); err != nil {
				return err
			}
		}
		if len(r.left) == 0 {
			return nil
		}
		if round == cancelRounds-1 {
			r.giveUp(elsewhere)
			return nil
		}
		select {
		case <-time.After(time.Duration(round+1) * cancelPause):
		case <-ctx.Done():
			return why(ctx, ctx.Err())
		}
	}
	return nil
}

// askAll asks the worker, or all of a master's; later on those of them that have answered before.
func (r *cancelRun) askAll(ctx context.Context, before []told[api.CancelAnswer]) ([]told[api.CancelAnswer], error) {
	if before == nil || !r.client.master {
		all, err := askFleet[api.CancelAnswer](ctx, r.client, api.Cancel.Name, r.query(!r.client.master))
		if r.client.master {
			r.mute = silent(all)
		}
		return all, err
	}
	all := make([]told[api.CancelAnswer], 0, len(before))
	for _, one := range before {
		if one.err == nil {
			again := told[api.CancelAnswer]{from: one.from}
			again.err = one.from.ask(ctx, api.Cancel.Name, fieldsOf(r.query(false)), &again.answer)
			all = append(all, again)
		}
	}
	return all, nil
}

// askOne asks the first worker that can be asked to cancel rows that nobody has claimed.
func (r *cancelRun) askOne(ctx context.Context, all []told[api.CancelAnswer]) (map[jobnet.Whole]api.ClaimedRow, error) {
	var failed error
	for _, one := range all {
		if one.err != nil {
			continue
		}
		answer := told[api.CancelAnswer]{from: one.from}
		if failed = one.from.ask(ctx, api.Cancel.Name, fieldsOf(r.query(true)), &answer.answer); failed == nil {
			return r.take(answer), nil
		}
		if leftOpen(failed, api.Cancel.Name) {
			return nil, failed
		}
		failed = fmt.Errorf("worker '%s': %w", clean(one.from.name), failed)
	}
	if failed == nil {
		failed = errors.New("no worker could be asked")
	}
	return nil, failed
}

// take notes what workers have answered, and gives the rows that others have, as these say.
func (r *cancelRun) take(all ...told[api.CancelAnswer]) map[jobnet.Whole]api.ClaimedRow {
	elsewhere := make(map[jobnet.Whole]api.ClaimedRow)
	for _, one := range all {
		if one.err != nil {
			continue
		}
		for id, job := range one.answer.Jobs {
			r.done[id] = cancelled{job, one.from.name}
			delete(r.failed, id)
		}
		for id, why := range one.answer.Errors {
			if _, did := r.done[id]; !did {
				r.failed[id] = why
			}
		}
		maps.Copy(elsewhere, one.answer.Elsewhere)
	}
	r.left = slices.DeleteFunc(slices.Clone(r.left), func(id jobnet.Whole) bool {
		_, did := r.done[id]
		_, refused := r.failed[id]
		return did || refused
	})
	return elsewhere
}

// giveUp tells of jobs that are left what their rows say.
func (r *cancelRun) giveUp(elsewhere map[jobnet.Whole]api.ClaimedRow) {
	for _, id := range r.left {
		r.failed[id] = "nobody who was asked has it"
		if row, there := elsewhere[id]; there {
			owner := "without a token"
			if row.Owner != "" {
				owner = "with the token " + clean(row.Owner)
			}
			r.failed[id] = fmt.Sprintf("its row is %s, %s, of a worker that was not asked", clean(row.Status), owner)
			if r.mute != nil {
				r.failed[id] += ", or does not answer, and may still cancel it"
			}
		}
	}
}

// show prints what became of the jobs that were cancelled.
func (r *cancelRun) show(jobs []jobRef) error {
	if r.json() {
		return r.printJSON(map[string]any{"jobs": r.done, "errors": r.failed})
	}
	t := table{head: []string{"JOB", "TARGET"}}
	if r.client != nil && r.client.master {
		t.head = append(t.head, "WORKER")
	}
	t.head = append(t.head, "BECAME")
	for _, job := range jobs {
		done, did := r.done[job.id]
		if !did {
			continue
		}
		cells := []cell{line(job.id), line(done.Target)}
		if r.client.master {
			cells = append(cells, line(done.Worker))
		}
		t.add(append(cells, line(r.became(done)))...)
	}
	if len(r.done) > 0 {
		r.print(t)
	}
	return nil
}

// became says what became of a job that was cancelled.
func (r *cancelRun) became(job cancelled) string {
	switch job.State {
	case api.CancelIgnored:
		return "ignored: it will not run"
	case api.CancelDone:
		return "done: it ran before, and is not run again"
	case api.CancelCancelling:
	default:
		return job.State
	}
	left := time.UnixMilli(job.Kill).Sub(r.now()).Round(time.Second)
	grace := time.Duration(job.Grace) * time.Millisecond
	next := ""
	if job.Next > 0 {
		next = "; next run " + r.seconds(job.Next)
	}
	switch {
	case job.Before:
		return fmt.Sprintf("cancelling since before, by %s: SIGKILL in %v", job.By, max(left, 0)) + next
	case grace == 0:
		return "cancelling: SIGTERM sent, and SIGKILL" + next
	}
	return fmt.Sprintf("cancelling: SIGTERM sent, SIGKILL in %v", grace) + next
}

// errors tells why jobs were not cancelled.
func (r *cancelRun) errors(jobs []jobRef) error {
	var failed []error
	for _, job := range jobs {
		if why, is := r.failed[job.id]; is {
			failed = append(failed, jobError(job.id, why))
		}
	}
	return exit.Join(failed...)
}

// The real-time signals of Linux as the C library counts them.
const (
	firstRealTime = 34
	lastSignal    = 64
)

func (p *program) sendSignal() *ffcli.Command {
	name := api.SendSignal.Name
	return command(name, "send-signal SIG ID… | SIG T:ID…", "send a signal, as TERM, SIGTERM or 15, to running jobs", func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			return wrongUsage("%s: needs a signal and at least one job", name)
		}
		signo, err := parseSignal(args[0])
		if err != nil {
			return wrongUsage("%s: %w", name, err)
		}
		jobs, err := jobRefs(name, args[1:], 0)
		if err == nil {
			jobs, err = p.withTargets(ctx, jobs)
		}
		if err != nil {
			return err
		}
		var answer api.Delivered
		if err := p.askInto(ctx, name, p.signalRequest(jobs, signo), &answer); err != nil {
			return mayBeDone(err, name)
		}
		return p.showDelivered(jobs, signo, answer)
	})
}

func (p *program) signalRequest(jobs []jobRef, signo int) any {
	if p.config.master {
		list := make([]api.SignalJob, len(jobs))
		for i, job := range jobs {
			list[i] = api.SignalJob{ID: job.id, Signal: int64(signo), Target: job.target}
		}
		return api.SignalJobs{Jobs: list}
	}
	signals := make(map[jobnet.Whole]int, len(jobs))
	for _, job := range jobs {
		signals[job.id] = signo
	}
	return api.Signals{Jobs: signals}
}

// showDelivered prints where the signal went, and is an error where it did not.
func (p *program) showDelivered(jobs []jobRef, signo int, answer api.Delivered) error {
	t := table{head: []string{"JOB", "SIGNAL", "DELIVERED"}}
	var failed []error
	for _, job := range jobs {
		key := strconv.FormatInt(int64(job.id), 10)
		delivered := answer.Jobs[key]
		t.add(line(job.id), line(signalName(signo)), line(yesOrNo(delivered)))
		switch reason := answer.Errors[key]; {
		case reason != "":
			failed = append(failed, jobError(job.id, reason))
		case !delivered:
			failed = append(failed, fmt.Errorf("job %d: not running, or no such signal", job.id))
		}
	}
	if !p.json() {
		p.print(t)
	}
	return exit.Join(failed...)
}

// parseSignal reads a signal's number, or its name with or without SIG.
// Real-time ones are SIGRTMIN+n and SIGRTMAX-n.
func parseSignal(text string) (int, error) {
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	number, err := strconv.Atoi(name)
	if err != nil {
		number = int(unix.SignalNum("SIG" + name))
		if number == 0 {
			number = realTime(name)
		}
	}
	if number < 0 || number > lastSignal || err != nil && number == 0 {
		return 0, fmt.Errorf("signal %q is not allowed; allowed are names such as TERM, SIGTERM and SIGRTMIN+1, and numbers from 0 to %d", text, lastSignal)
	}
	return number, nil
}

// realTime reads RTMIN, RTMIN+n, RTMAX and RTMAX-n; 0 stands for anything else.
func realTime(name string) int {
	number, base := 0, firstRealTime
	text, found := strings.CutPrefix(name, "RTMIN")
	if !found {
		base = lastSignal
		if text, found = strings.CutPrefix(name, "RTMAX"); !found {
			return 0
		}
	}
	if text != "" {
		offset, err := strconv.Atoi(text)
		if err != nil || text[0] != '+' && text[0] != '-' {
			return 0
		}
		number = offset
	}
	if number += base; number < firstRealTime || number > lastSignal {
		return 0
	}
	return number
}

func signalName(signo int) string {
	if name := unix.SignalName(syscall.Signal(signo)); name != "" {
		return name
	}
	return strconv.Itoa(signo)
}

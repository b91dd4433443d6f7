package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/journal"
)

func (p *program) journalState() *ffcli.Command {
	at := timeFlag{p: p}
	var status statusFlag
	c := journalCommand("state", "", "every job's status, now or at a time, by replay", func(ctx context.Context, r *journal.Reader, args []string) error {
		if len(args) > 0 {
			return wrongUsage("journal state: takes no arguments, got %q", args)
		}
		state, err := r.State(ctx, at.at)
		if err != nil {
			return err
		}
		t := table{head: []string{"JOB", "TARGET", "STATUS", "RESULT", "ATTEMPT", "ACCEPTED", "RUNNING", "ENDED"}}
		for _, id := range slices.Sorted(maps.Keys(state.Jobs)) {
			job := state.Jobs[id]
			if status != "" && job.Status != journal.Status(status) {
				continue
			}
			if p.json() {
				if err := p.printJSON(stateJSON(job)); err != nil {
					return err
				}
				continue
			}
			t.add(line(id), line(job.Target), line(job.Status), line(outcome(job)), line(job.Attempt),
				line(p.stamp(job.Accepted)), line(p.stamp(job.Running)), line(p.stamp(job.Ended)))
		}
		if !p.json() {
			p.print(t)
		}
		return nil
	})
	c.FlagSet.Var(&at, "at", "as it was at this time: 2026-11-20 14:00, 2h (ago), or unix time")
	c.FlagSet.Var(&status, "status", "only jobs of this status: "+strings.Join(statusNames(), ", "))
	return c
}

// outcome says how a job ended, where it did.
func outcome(job *journal.Job) string {
	if job.Status != journal.StatusDone {
		return job.Reason
	}
	return manualJob{Result: job.Result, Code: job.Code, Signal: job.Signal}.outcome()
}

// stateForm is a job's state as JSON.
type stateForm struct {
	Job      int64          `json:"job"`
	Target   string         `json:"target"`
	Manual   bool           `json:"manual"`
	Status   journal.Status `json:"status"`
	Result   string         `json:"result,omitempty"`
	Code     *int           `json:"code,omitempty"`
	Signal   string         `json:"signal,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Attempt  int            `json:"attempt"`
	Accepted time.Time      `json:"accepted,omitzero"`
	Running  time.Time      `json:"running,omitzero"`
	Ended    time.Time      `json:"ended,omitzero"`
}

func stateJSON(j *journal.Job) stateForm {
	return stateForm{
		Job: j.ID, Target: j.Target, Manual: j.Manual, Status: j.Status,
		Result: j.Result, Code: j.Code, Signal: j.Signal, Reason: j.Reason,
		Attempt: j.Attempt, Accepted: j.Accepted, Running: j.Running, Ended: j.Ended,
	}
}

// statusFlag is a flag.Value for a job's status.
type statusFlag journal.Status

// String implements flag.Value.
func (f *statusFlag) String() string { return "" }

// Set implements flag.Value.
func (f *statusFlag) Set(text string) error {
	if !slices.Contains(statusNames(), text) {
		return fmt.Errorf("%q is not allowed; allowed are: %s", text, strings.Join(statusNames(), ", "))
	}
	*f = statusFlag(text)
	return nil
}

func statusNames() []string {
	var names []string
	for _, status := range []journal.Status{
		journal.StatusAccepted, journal.StatusStarting, journal.StatusRunning, journal.StatusDone,
		journal.StatusReleased, journal.StatusIgnored, journal.StatusConflict,
	} {
		names = append(names, string(status))
	}
	return names
}

func (p *program) journalVerify() *ffcli.Command {
	return journalCommand("verify", "", "check that nothing is missing, damaged or altered", func(ctx context.Context, r *journal.Reader, args []string) error {
		if len(args) > 0 {
			return wrongUsage("journal verify: takes no arguments, got %q", args)
		}
		state, err := r.Verify(ctx)
		if p.json() {
			return errors.Join(p.printJSON(verdictJSON(state, err)), err)
		}
		if err != nil {
			fmt.Fprintf(p.out, "sound up to event %d\n%s", state.Seq, firstBad(err))
			return err
		}
		fmt.Fprintf(p.out, "verified: %d events, the last of %s with hash %s\n", state.Seq, p.stamp(state.Time), state.Hash)
		return nil
	})
}

// firstBad names the first event that is wrong, where that can be told.
func firstBad(err error) string {
	var damaged *journal.DamagedError
	if !errors.As(err, &damaged) || damaged.Seq == 0 {
		return ""
	}
	return fmt.Sprintf("first bad sequence number: %d\n", damaged.Seq)
}

func verdictJSON(state *journal.State, err error) any {
	verdict := map[string]any{"ok": err == nil, "events": state.Seq, "hash": state.Hash.String()}
	if err != nil {
		verdict["error"] = err.Error()
	}
	var damaged *journal.DamagedError
	if errors.As(err, &damaged) && damaged.Seq != 0 {
		verdict["first_bad"] = damaged.Seq
	}
	return verdict
}

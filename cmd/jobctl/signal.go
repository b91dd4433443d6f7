package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/peterbourgon/ff/v3/ffcli"
	"golang.org/x/sys/unix"

	jobnet "jobd/net"
	"jobd/net/api"
)

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
		jobs, err := p.jobRefs(name, args[1:])
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
			failed = append(failed, fmt.Errorf("job %d: %s", job.id, clean(reason)))
		case !delivered:
			failed = append(failed, fmt.Errorf("job %d: not running, or no such signal", job.id))
		}
	}
	if !p.json() {
		p.print(t)
	}
	return errors.Join(failed...)
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

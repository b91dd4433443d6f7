package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/peterbourgon/ff/v3/ffcli"
	"golang.org/x/sys/unix"

	jobnet "jobd/net"
)

// The real-time signals of Linux as the C library counts them.
const (
	firstRealTime = 34
	lastSignal    = 64
)

func (p *program) sendSignal() *ffcli.Command {
	const name = "send-signal"
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
		var answer map[string]json.RawMessage
		if err := p.askInto(ctx, name, p.signalRequest(jobs, signo), &answer); err != nil {
			return mayBeDone(err, name)
		}
		return p.showDelivered(jobs, signo, answer)
	})
}

func (p *program) signalRequest(jobs []jobRef, signo int) any {
	if !p.config.master {
		signals := map[string]int{}
		for _, job := range jobs {
			signals[strconv.FormatInt(int64(job.id), 10)] = signo
		}
		return map[string]any{"jobs": signals}
	}
	list := make([]map[string]any, len(jobs))
	for i, job := range jobs {
		list[i] = map[string]any{"id": jobnet.Whole(job.id), "signal": signo, "target": job.target}
	}
	return map[string]any{"jobs": list}
}

// showDelivered prints where the signal went, and is an error where it did not.
func (p *program) showDelivered(jobs []jobRef, signo int, answer map[string]json.RawMessage) error {
	refused := map[jobnet.Whole]string{}
	if data, ok := answer["errors"]; ok {
		if err := json.Unmarshal(data, &refused); err != nil {
			return fmt.Errorf("answer to send-signal is not understood: %w", err)
		}
	}
	t := table{head: []string{"JOB", "SIGNAL", "DELIVERED"}}
	var failed []error
	for _, job := range jobs {
		delivered := string(answer[strconv.FormatInt(int64(job.id), 10)]) == "true"
		t.add(line(job.id), line(signalName(signo)), line(yesOrNo(delivered)))
		switch reason := refused[job.id]; {
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

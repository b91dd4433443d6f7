package gearman

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"jobd/net/principal"
)

// What names may be like: as long as gearmand's, without what would break the lines of a list.
const (
	mostOfFunction = 512
	mostOfUnique   = 64
	endOfTime      = 4_102_444_800 // the year 2100: a time from there on is a mistake in milliseconds
)

// take does what a packet asks for.
func (p *Peer) take(ctx context.Context, kind Kind, args [][]byte, held *hold) {
	s := p.server
	if is := requests[kind]; is.need != 0 {
		function := ""
		if is.need != principal.Status {
			function = string(args[0])
		}
		if err := p.may(is.need, is.name, function); err != nil {
			p.refuse("FORBIDDEN", err.Error())
			return
		}
	}
	switch kind {
	case SubmitJob, SubmitJobBg, SubmitJobHigh, SubmitJobHighBg, SubmitJobLow, SubmitJobLowBg, SubmitJobEpoch:
		p.submit(kind, args, held)
	case GetStatus, GetStatusUnique:
		name, _, _ := strings.Cut(string(args[0]), "\x00") // what comes behind it is not its answer's
		p.standing(ctx, kind, name)
	case EchoReq:
		p.SendPayload(EchoRes, Payload{args[0], held})
	case OptionReq:
		p.option(string(args[0]))
	case CanDo, CanDoTimeout:
		name := string(args[0])
		if why := unfit(name); why != "" {
			p.refuse("INVALID_FUNCTION_NAME", why)
			return
		}
		if err := s.Functions.Add(name, p.By()); err != nil {
			p.refuse("INVALID_FUNCTION_NAME", err.Error())
			return
		}
		if kind == CanDoTimeout {
			s.canDo(p, name, milliseconds(args[1]))
		} else {
			s.canDo(p, name, 0)
		}
	case CantDo:
		s.cantDo(p, string(args[0]))
	case ResetAbilities:
		s.reset(p)
	case SetClientID:
		s.mu.Lock()
		p.id = printable(string(args[0]))
		s.mu.Unlock()
	case PreSleep:
		s.sleep(p)
	case GrabJob, GrabJobUniq, GrabJobAll:
		s.grab(p, kind)
	default:
		s.said(p, kind, args, held)
	}
}

// unfit is why a function can't have a name; "": it can.
func unfit(name string) string {
	switch {
	case name == "":
		return "A function needs a name"
	case len(name) > mostOfFunction:
		return fmt.Sprintf("The name of a function has at most %d bytes", mostOfFunction)
	case printable(name) != name || strings.TrimSpace(name) != name:
		return "The name of a function is UTF-8 without control characters, and has no space around it"
	}
	return ""
}

// printable is a text without what would break a line of a list.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, text)
}

// priorities of the kinds that submit something.
var priorities = map[Kind]int{SubmitJobHigh: 1, SubmitJobHighBg: 1, SubmitJobLow: -1, SubmitJobLowBg: -1}

// answered waits until all that the peer has submitted before is answered, so that answers come in the order of what is
// asked. ECHO_REQ, which asks whether somebody is there, and workers do not wait for that.
func (p *Peer) answered() {
	if p.pending.Acquire(p.ctx, mostPending) == nil {
		p.pending.Release(mostPending)
	}
}

// submit takes a job. Nothing more is read from a peer that waits for too many answers.
func (p *Peer) submit(kind Kind, args [][]byte, held *hold) {
	job := &Submission{
		From: p, Function: string(args[0]), Unique: string(args[1]), Priority: priorities[kind],
		Background: kind != SubmitJob && kind != SubmitJobHigh && kind != SubmitJobLow,
		Workload:   Payload{args[len(args)-1], held},
	}
	if why := unfit(job.Function); why != "" {
		p.refuse("INVALID_FUNCTION_NAME", why)
		return
	}
	if len(job.Unique) > mostOfUnique {
		p.refuse("ARGUMENT_TOO_LARGE", fmt.Sprintf("A unique id has at most %d bytes", mostOfUnique))
		return
	}
	if kind == SubmitJobEpoch {
		at, err := strconv.ParseInt(string(args[2]), 10, 64)
		if err != nil || at < 0 || at >= endOfTime {
			p.refuse("INVALID_ARGUMENT", "The time of SUBMIT_JOB_EPOCH is a number of seconds since 1970, before the year 2100")
			return
		}
		job.At = at
	}
	if err := p.server.Functions.Add(job.Function, p.By()); err != nil {
		p.refuse("INVALID_FUNCTION_NAME", err.Error())
		return
	}
	job.weight = 1
	if held == nil {
		job.weight += int64(len(job.Workload.Bytes) / pendingBytes)
	}
	if p.pending.Acquire(context.Background(), job.weight) != nil {
		return
	}
	job.Workload.Keep()
	p.server.Intake.Submit(job)
}

// standing answers GET_STATUS and GET_STATUS_UNIQUE. A job that can't be looked up now is as one that is not known.
func (p *Peer) standing(ctx context.Context, kind Kind, name string) {
	p.answered()
	q := Question{From: p, Handle: name}
	if kind == GetStatusUnique {
		q = Question{From: p, Unique: name}
	}
	is, err := p.server.Intake.Standing(ctx, q)
	if err != nil {
		p.refuse("QUEUE_ERROR", err.Error())
		return
	}
	said := func(number string) string {
		if number == "" {
			return "0"
		}
		return number
	}
	answer := []string{name, digit(is.Known), digit(is.Running), said(is.Numerator), said(is.Denominator)}
	if kind == GetStatus {
		p.Send(StatusRes, answer...)
	} else {
		p.Send(StatusResUnique, append(answer, strconv.Itoa(is.Clients))...)
	}
}

func digit(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// option answers OPTION_REQ.
func (p *Peer) option(name string) {
	if !strings.EqualFold(name, "exceptions") {
		p.refuse("UNKNOWN_OPTION", "Server does not recognize given option")
		return
	}
	p.exceptions.Store(true)
	p.answered()
	p.Send(OptionRes, name)
}

// may tells why a peer may not ask for something; nil: it may.
func (p *Peer) may(need principal.Scope, request, function string) error {
	var err error
	switch {
	case !p.session.Scope.Has(need):
		err = fmt.Errorf("%s may not ask for %s: that needs the scope %s", p.session.Who(), request, need)
	case function != "" && !p.Reaches(function):
		err = fmt.Errorf("%s may not ask for %s of %s", p.session.Who(), request, printable(function))
	default:
		return nil
	}
	if need != principal.Status {
		p.server.Config.Refused(p.session, request, function, err)
	}
	return err
}

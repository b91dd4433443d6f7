package main

import (
	"context"

	"jobd/cmd/internal/refusals"
	"jobd/cmd/internal/service"
	"jobd/exec/board"
	jobnet "jobd/net"
	"jobd/net/api"
)

// handlers is the front for the wire protocol: it decodes requests, has the service carry them out,
// and gives its answers to be encoded. docs/protocol.md describes them.
func (d *daemon) handlers() map[string]jobnet.Handler {
	s, all := d.service, make(map[string]jobnet.Handler)
	handle(all, s, api.Poll, s.Poll)
	handle(all, s, api.Pause, s.Pause)
	handle(all, s, api.Continue, s.Continue)
	handle(all, s, api.Recycle, s.Recycle)
	handle(all, s, api.Status, s.Status)
	handle(all, s, api.AddTarget, s.AddTarget)
	handle(all, s, api.RemoveTarget, s.RemoveTarget)
	handle(all, s, api.SetConcurrency, s.SetConcurrency)
	handle(all, s, api.RunManual, s.RunManual)
	handle(all, s, api.SendSignal, s.SendSignal)
	handle(all, s, api.Reload, s.Reload)
	handle(all, s, api.Restart, s.Restart)
	handle(all, s, api.Running, s.Running)
	handle(all, s, api.Waiting, s.Waiting)
	handle(all, s, api.Unfinished, s.Unfinished)
	handle(all, s, api.Jobs, s.Jobs)
	handle(all, s, api.Rates, s.Rates)
	handle(all, s, api.Rows, s.Rows)
	handle(all, s, api.Explain, s.Explain)
	handle(all, s, api.Retry, s.Retry)
	handle(all, s, api.Output, s.Output)
	handle(all, s, api.Cancel, s.Cancel)
	handle(all, s, api.Recurring, s.Recurring)
	handle(all, s, api.RunNow, s.Plan(api.RunNow.Name, board.RunNow))
	handle(all, s, api.PauseSchedule, s.Plan(api.PauseSchedule.Name, board.Pause))
	handle(all, s, api.ContinueSchedule, s.Plan(api.ContinueSchedule.Name, board.Continue))
	d.addJournal(all)
	return api.Gate(all, func(request jobnet.Request, err error) {
		s.Refused(request.Type, callOf(request, request.Fields()), err)
	})
}

// handle adds the handler of a request.
func handle[Q, A any](
	all map[string]jobnet.Handler, s *service.Service, r api.Request[Q, A],
	do func(ctx context.Context, from service.Call, query Q) (A, error),
) {
	all[r.Name] = func(ctx context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
		data := request.Fields()
		from := callOf(request, data)
		query, err := r.Read(request.From, data)
		if err != nil {
			if r.Changes {
				s.Refused(r.Name, from, err)
			}
			return nil, err
		}
		if r.Slow {
			request.Proceed()
		}
		return service.Limited(ctx, s, r.Kind, from, query, do)
	}
}

// longData is a number of bytes: if the data of a request is longer, it is not kept until the request is
// answered.
const longData = 4 << 10

// callOf is who sends a request, and its words.
func callOf(request jobnet.Request, data jobnet.Fields) service.Call {
	from := service.Call{From: request.From.By(), Who: request.From}
	if len(request.Data) > longData {
		words := refusals.About(data)
		from.About = func() string { return words }
	} else {
		from.About = func() string { return refusals.About(data) }
	}
	return from
}

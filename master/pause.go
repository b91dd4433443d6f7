package master

import (
	"context"
	"strings"

	jobnet "jobd/net"
	"jobd/net/api"
)

// pause answers pause, continue and recycle: each worker concerned is asked the same for the targets that it
// serves. The answer is ok when all of them did it.
func (m *Master) pause(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	asked, err := api.MasterPause.Read(request.From, request.Fields())
	if err != nil {
		return nil, err
	}
	who := request.From
	var answer api.Done
	var letters []letter
	workers, by := m.visible(who), who.Address
	if asked.Targets == nil {
		letters = []letter{{workers, api.Targets{By: by}}}
	}
	wanted := selectionOf(asked.Targets)
	for _, w := range workers {
		if served := w.profile.Load().match(wanted); len(served) > 0 {
			letters = append(letters, letter{[]*worker{w}, api.Targets{Targets: served, By: by}})
		}
	}
	if asked.Detail {
		answer = m.detail(who, asked.Targets)
	}
	replies, err := m.askAll(ctx, link, request, answerTimeout, letters)
	if err != nil {
		return nil, err
	}
	var failures []string
	for _, r := range replies {
		if r.err != nil {
			failures = append(failures, "worker '"+r.worker.name()+"': "+clientText(r.err))
		}
	}
	if len(failures) > 0 {
		return nil, jobnet.Refusal(strings.Join(failures, "; "))
	}
	return answer, nil
}

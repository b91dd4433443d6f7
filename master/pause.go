package master

import (
	"context"
	"strings"
	"sync"

	jobnet "jobd/net"
	"jobd/net/api"
)

// pause answers pause, continue and recycle: each worker concerned is asked the same for the targets that it
// serves. The answer is ok when all of them did it.
func (m *Master) pause(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	from, leave := m.clients.enter(link)
	defer leave()
	order, err := m.pauseOrder(request, link.RemoteAddr().String())
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	failures := make(map[*worker]string)
	asking := round{Master: m, from: from, typ: request.Type, timeout: answerTimeout}
	request.OnAnswered(asking.release)
	asking.answered = func(_ letter, w *worker, _ []byte, err error) {
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			failures[w] = "worker '" + w.name() + "': " + clientText(err)
		}
	}
	if err := asking.ask(ctx, order.letters); err != nil {
		return nil, err
	}
	var texts []string
	for _, l := range order.letters {
		for _, w := range l.to {
			if text, failed := failures[w]; failed {
				texts = append(texts, text)
			}
		}
	}
	if len(texts) > 0 {
		return nil, jobnet.Refusal(strings.Join(texts, "; "))
	}
	return order.answer, nil
}

// pauseOrder is what a client wants of the workers, and what it is told when they have done it.
type pauseOrder struct {
	letters []letter
	answer  api.Done
}

// pauseOrder reads such a request.
func (m *Master) pauseOrder(request jobnet.Request, by string) (order pauseOrder, err error) {
	asked, err := api.MasterPause.Read(request.Fields())
	if err != nil {
		return order, err
	}
	workers := m.registry.all()
	if asked.Targets == nil {
		if order.letters = []letter{{workers, api.Targets{By: by}}}; asked.Detail {
			all := len(workers)
			order.answer.Workers = &all
		}
		return order, nil
	}
	if asked.Detail {
		order.answer = m.detail(asked.Targets)
	}
	wanted := selectionOf(asked.Targets)
	for _, w := range workers {
		if served, _ := w.profile.Load().match(wanted); len(served) > 0 {
			order.letters = append(order.letters, letter{[]*worker{w}, api.Targets{Targets: served, By: by}})
		}
	}
	return order, nil
}

package master

import (
	"context"
	"fmt"
	"slices"
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
	if len(failures) > 0 {
		return nil, jobnet.Refusal(joined(m.registry.all(), failures))
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
	order.letters = sorted(workers, func(w *worker) []string { targets, _ := w.profile.Load().match(wanted); return targets },
		func(served []string) any { return api.Targets{Targets: served, By: by} })
	return order, nil
}

// sorted makes one letter for all workers that are asked about the same names; none for those that
// are asked about no name.
func sorted(workers []*worker, about func(*worker) []string, data func(names []string) any) []letter {
	var letters []letter
	at := make(map[string]int)
	for _, w := range workers {
		names := about(w)
		if len(names) == 0 {
			continue
		}
		key := keyOf(names)
		i, known := at[key]
		if !known {
			i, at[key] = len(letters), len(letters)
			letters = append(letters, letter{data: data(names)})
		}
		letters[i].to = append(letters[i].to, w)
	}
	return letters
}

// keyOf is a text that no other list of names gives.
func keyOf(names []string) string {
	var key strings.Builder
	for _, name := range names {
		fmt.Fprintf(&key, "%d:%s", len(name), name)
	}
	return key.String()
}

// joined puts together what failed, in the order of the workers.
func joined(workers []*worker, failures map[*worker]string) string {
	var texts []string
	for _, w := range workers {
		if text, failed := failures[w]; failed {
			texts = append(texts, text)
			delete(failures, w)
		}
	}
	rest := make([]string, 0, len(failures))
	for _, text := range failures { // of workers that have left
		rest = append(rest, text)
	}
	slices.Sort(rest)
	return strings.Join(append(texts, rest...), "; ")
}

package master

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	jobnet "jobd/net"
	"jobd/net/api"
)

// sendSignal answers send-signal. Every worker that serves the target is asked: only one of them
// can run the job, and only it knows. The answer is true for jobs whose signal one of them
// delivered. A job has an error too where nobody delivered it and a worker could not be asked: it
// may be the one.
func (m *Master) sendSignal(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	asked, err := api.RouteSignal.Read(request.From, request.Fields())
	if err != nil {
		return nil, err
	}
	letters := signalLetters(asked.Jobs, m.registry.all(), request.From.Address)
	replies, err := m.askAll(ctx, link, request, answerTimeout, letters)
	if err != nil {
		return nil, err
	}
	// By job id, of all that a worker was asked about.
	delivered, failed := make(map[string]bool), make(map[string]string)
	for _, r := range replies {
		if ctx.Err() != nil {
			return nil, ctx.Err() // reading thousands of answers may take long
		}
		told, err := r.delivered()
		for _, j := range r.data.(signalLetter).jobs {
			key := key(j)
			delivered[key] = delivered[key] || told[key]
			if err != nil {
				failed[key] = fmt.Sprintf("worker '%s': %s", r.worker.name(), clientText(err))
			}
		}
	}
	answer := api.Delivered{Jobs: delivered, Errors: make(map[string]string)}
	for _, j := range asked.Jobs {
		key := key(j)
		switch done, asked := delivered[key]; {
		case !asked:
			answer.Errors[key] = notServed(j.Target)
		case !done && failed[key] != "":
			answer.Errors[key] = failed[key]
		}
	}
	return answer, nil
}

// signalsALetter is how many jobs a worker is asked about in one request: more it refuses.
const signalsALetter = 10_000

// signalLetters asks the workers that serve a target for its jobs.
func signalLetters(all []job, workers []*worker, by string) (letters []letter) {
	jobs, to := make(map[string][]job), make(map[string][]*worker)
	for _, j := range all {
		jobs[j.Target] = append(jobs[j.Target], j)
	}
	wanted := selectionOf(slices.Collect(maps.Keys(jobs)))
	for _, w := range workers {
		for _, target := range w.profile.Load().match(wanted) {
			to[target] = append(to[target], w)
		}
	}
	for target, serving := range to {
		for part := range slices.Chunk(jobs[target], signalsALetter) {
			letters = append(letters, letter{serving, signalLetter{part, by}})
		}
	}
	return letters
}

// signalLetter is the api.Signals of some jobs, made only when it is sent.
type signalLetter struct {
	jobs []job
	by   string
}

// MarshalJSON implements json.Marshaler.
func (l signalLetter) MarshalJSON() ([]byte, error) {
	data := api.Signals{Jobs: make(map[jobnet.Whole]int, len(l.jobs)), By: l.by}
	for _, j := range l.jobs {
		data.Jobs[j.ID] = int(j.Signal)
	}
	return json.Marshal(data)
}

// answerBytes is more than what a worker needs to tell of a job whether its signal was delivered.
const answerBytes = 40

// delivered reads a worker's answer to send-signal.
func (r reply) delivered() (told map[string]bool, err error) {
	switch {
	case r.err != nil:
		return nil, r.err
	case len(r.answer) > answerBytes*signalsALetter:
		return nil, fmt.Errorf("the answer is too long: it has %d bytes", len(r.answer))
	}
	err = json.Unmarshal(r.answer, &told)
	return told, err
}

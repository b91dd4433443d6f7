package master

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	jobnet "jobd/net"
	"jobd/net/api"
)

// sendSignal answers send-signal. Every worker that serves the target is asked: only one of them
// can run the job, and only it knows. The answer is true for jobs whose signal one of them
// delivered. A job has an error too where nobody delivered it and a worker could not be asked: it
// may be the one.
func (m *Master) sendSignal(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	from, leave := m.clients.enter(link)
	defer leave()
	asked, err := api.RouteSignal.Read(request.Fields())
	if err != nil {
		return nil, err
	}
	s := newSignalling(asked.Jobs)
	letters := s.letters(m.registry.all(), link.RemoteAddr().String())
	asking := round{Master: m, from: from, typ: api.SendSignal.Name, timeout: answerTimeout}
	request.OnAnswered(asking.release)
	asking.answered = func(l letter, w *worker, raw []byte, err error) { s.take(ctx, l, w, raw, err) }
	if err := asking.ask(ctx, letters); err != nil {
		return nil, err
	}
	return s.answer(), nil
}

// signalling is one request to send signals, and what became of it.
type signalling struct {
	jobs []job

	mu        sync.Mutex
	delivered map[string]bool // by job id; of all that a worker was asked about
	failed    map[string]string
}

func newSignalling(jobs []job) *signalling {
	return &signalling{jobs: jobs, delivered: make(map[string]bool), failed: make(map[string]string)}
}

// signalsALetter is how many jobs a worker is asked about in one request: more it refuses.
const signalsALetter = 10_000

// letters asks the workers that serve a target for its jobs.
func (s *signalling) letters(workers []*worker, by string) (letters []letter) {
	jobs, to := make(map[string][]job), make(map[string][]*worker)
	for _, j := range s.jobs {
		jobs[j.Target] = append(jobs[j.Target], j)
	}
	wanted := selectionOf(slices.Collect(maps.Keys(jobs)))
	for _, w := range workers {
		_, served := w.profile.Load().match(wanted)
		for _, target := range served {
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

// take takes a worker's answer over. Thousands may wait here for their turn: when the client is gone,
// none of them is read any more.
func (s *signalling) take(ctx context.Context, l letter, w *worker, raw []byte, err error) {
	s.mu.Lock() // from here on: one answer is read at a time
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	var answer map[string]bool
	switch {
	case err != nil:
	case len(raw) > answerBytes*signalsALetter:
		err = fmt.Errorf("the answer is too long: it has %d bytes", len(raw))
	default:
		err = json.Unmarshal(raw, &answer)
	}
	text := ""
	if err != nil {
		text = fmt.Sprintf("worker '%s': %s", w.name(), clientText(err))
	}
	for _, j := range l.data.(signalLetter).jobs {
		key := key(j)
		s.delivered[key] = s.delivered[key] || answer[key]
		if err != nil {
			s.failed[key] = text
		}
	}
}

// answer puts together what was delivered and what failed, by job id.
func (s *signalling) answer() api.Delivered {
	answer := api.Delivered{Jobs: make(map[string]bool), Errors: make(map[string]string)}
	for _, j := range s.jobs {
		key := key(j)
		done, asked := s.delivered[key]
		switch {
		case !asked:
			answer.Errors[key] = notServed(j.Target)
			continue
		case !done && s.failed[key] != "":
			answer.Errors[key] = s.failed[key]
		}
		answer.Jobs[key] = done
	}
	return answer
}

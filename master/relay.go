package master

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
)

// How long a worker may take for a request that the master hands on. lookTimeout is shorter than the
// time for which jobctl waits, so that one worker that hangs does not hide the answers of the others.
// changeTimeout is for a worker that is asked alone for a change: it may have to wait for rows that
// somebody holds.
const (
	lookTimeout   = 8 * time.Second
	changeTimeout = 30 * time.Second
)

func timeoutOf(how api.Kind, alone bool) time.Duration {
	if how.Changes && alone {
		return changeTimeout
	}
	return lookTimeout
}

// relay answers a request about journals, or an operator's: every worker is asked the same, or the
// one that the field worker names, by its name or address. It keeps nothing between two requests: a
// stream stands in the worker, and advances as fast as the client asks for its pages.
func (m *Master) relay(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	if len(request.Data) > mostRelayedBytes {
		return nil, jobnet.Refusef("the request is too long: at most %d bytes are allowed", mostRelayedBytes).
			With(jobnet.CodeLimit)
	}
	workers, fields, how := m.visible(request.From), request.Fields(), api.Kinds[request.Type]
	if fields.Has("worker") {
		name, err := fields.Text("worker")
		if err != nil {
			return nil, err
		}
		workers = slices.DeleteFunc(workers, func(w *worker) bool { return w.name() != name && w.address() != name })
		if len(workers) == 0 {
			return nil, jobnet.Refusef("worker '%s' not found", name).With(jobnet.CodeNotFound)
		}
	}
	if how.OneWorker && !fields.Has("worker") {
		return nil, jobnet.Refusef("'worker' is missing: %s is for one worker, by its name or address", request.Type).
			With(jobnet.CodeInvalid)
	}
	data := handedOn(fields, request.From.Address)
	request.Proceed()
	replies, err := m.askAll(ctx, link, request, timeoutOf(how, fields.Has("worker")), []letter{{workers, data}})
	if err != nil {
		return nil, err
	}
	answers := make([]api.RelayedAnswer, len(replies))
	for i, r := range replies {
		answers[i] = api.RelayedAnswer{Name: r.worker.name(), Address: r.worker.address(), Data: r.answer}
		if r.err != nil {
			answers[i].Error = clientText(r.err)
		}
	}
	if !fields.Has("worker") && request.From.All() {
		answers = append(answers, m.unanswered()...)
	}
	return collected(answers)
}

// unanswered are the answers of the workers that are down: a client that asks all hears whose is missing.
func (m *Master) unanswered() (answers []api.RelayedAnswer) {
	for _, w := range m.registry.down(time.Now()) {
		since := time.UnixMilli(w.Since).UTC().Format(time.RFC3339)
		answers = append(answers, api.RelayedAnswer{
			Name: w.Name, Address: net.JoinHostPort(w.RemoteAddr, fmt.Sprint(w.RemotePort)), Error: "it is down since " + since,
		})
	}
	return answers
}

// collected is the api.Relayed of some answers: what the workers have said, which may be long, is not copied.
func collected(answers []api.RelayedAnswer) (all jobnet.Joined, err error) {
	all = jobnet.Joined{[]byte(`{"workers":[`)}
	for i, a := range answers {
		said := a.Data
		a.Data = nil
		around, err := jobnet.Encode(a)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			all = append(all, []byte(","))
		}
		all = append(all, around.With("data", said)...)
	}
	return append(all, []byte("]}")), nil
}

// handedOn is what the workers get of a request's data: its fields, but for what the master itself
// has read, and who asks.
func handedOn(fields jobnet.Fields, by string) jobnet.Fields {
	data := jobnet.Fields{}
	maps.Copy(data, fields)
	delete(data, "worker")
	data["by"], _ = json.Marshal(by) // a text never fails
	return data
}

// address is where the worker connected from, as host:port; over a unix socket unix:PID.
func (w *worker) address() string {
	info := w.info()
	return net.JoinHostPort(info.RemoteAddr, fmt.Sprint(info.RemotePort))
}

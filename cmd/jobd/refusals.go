package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"jobd/journal"
	"jobd/master"
	jobnet "jobd/net"
)

// Refused commands that would have changed something are part of the history. A client that sends them in a loop must not fill
// the journal: the first few a minute have an event each, and the others of that minute one event that counts them.
const (
	refusalTime    = time.Minute
	mostRefusals   = 10  // events a minute and client
	allRefusals    = 100 // events a minute, of all clients
	mostRefused    = 100 // clients that are told apart within a minute; those beyond count as one
	otherClients   = "others"
	mostRefusedFor = 200 // bytes of what was asked, and of why not
)

// changing are the requests whose refusal is journalled.
var changing = []string{
	"pause", "continue", "add-target", "remove-target", "set-target-concurrency", "run-manual", "send-signal", "restart",
	"journal-reapply",
}

// withRefusals has refusals of the requests that change something journalled.
func withRefusals(d *daemon, handlers map[string]jobnet.Handler) map[string]jobnet.Handler {
	for _, typ := range changing {
		handler := handlers[typ]
		handlers[typ] = func(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
			data, err := handler(ctx, link, request)
			var refusal jobnet.Refusal
			switch delivered, signals := data.(map[string]bool); {
			case errors.As(err, &refusal):
				d.refusals.add(request, master.Asker(ctx, link, request), string(refusal))
			case signals && err == nil && reachedNobody(delivered, request):
				d.refusals.add(request, master.Asker(ctx, link, request), "nothing was signalled")
			}
			return data, err
		}
	}
	return handlers
}

// reachedNobody tells whether signals were asked for, beside those that only probe, and none was delivered.
func reachedNobody(delivered map[string]bool, request jobnet.Request) bool {
	for _, sent := range delivered {
		if sent {
			return false
		}
	}
	for _, value := range jobnet.FieldsOf(request.Fields()["jobs"]) {
		if signo, whole := jobnet.Integer(value); !whole || signo != 0 {
			return true
		}
	}
	return false
}

// firstOf is what became of the first of some jobs of which none was run.
func firstOf(refused map[int64]string) string {
	text := refused[slices.Min(slices.Collect(maps.Keys(refused)))]
	if more := len(refused) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// refusals journals refused commands. Its methods are safe for concurrent use, and do not fail: nothing depends on what they
// journal.
type refusals struct {
	journal func(journal.Payload) error
	log     logger

	mu      sync.Mutex
	clients map[string]*refusedClient // of the last minute
	since   time.Time                 // when the minute began in which all are counted
	all     int
}

// refusedClient is who was refused something within the last minute.
type refusedClient struct {
	told  int // events of its own
	last  journal.Refused
	timer *time.Timer
}

func newRefusals(note func(journal.Payload) error, log logger) *refusals {
	return &refusals{journal: note, log: log, clients: make(map[string]*refusedClient)}
}

// add takes in that a client was refused a request.
func (r *refusals) add(request jobnet.Request, by, reason string) {
	r.note(journal.Refused{Request: request.Type, About: about(request), Reason: reason, By: by})
}

// note journals a refusal, or counts it.
func (r *refusals) note(refused journal.Refused) {
	refused.About, refused.Reason, refused.By = cut(refused.About), cut(refused.Reason), cut(refused.By)
	if r.count(&refused) {
		r.append(refused)
	}
}

// count tells whether a refusal is to have an event of its own.
func (r *refusals) count(refused *journal.Refused) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	host := hostOf(refused.By)
	client := r.clients[host]
	if client == nil && len(r.clients) >= mostRefused {
		host, refused.By = otherClients, otherClients
		client = r.clients[host]
	}
	if client == nil {
		client = &refusedClient{}
		client.timer = time.AfterFunc(refusalTime, func() { r.end(host) })
		r.clients[host] = client
	}
	if now := time.Now(); now.Sub(r.since) >= refusalTime {
		r.since, r.all = now, 0
	}
	if client.told < mostRefusals && r.all < allRefusals {
		client.told++
		r.all++
		return true
	}
	times := client.last.Times + 1
	client.last = *refused
	client.last.Times = times
	return false
}

// end ends a client's minute.
func (r *refusals) end(host string) {
	r.mu.Lock()
	client := r.clients[host]
	delete(r.clients, host)
	r.mu.Unlock()
	if client != nil && client.last.Times > 0 {
		r.append(client.last)
	}
}

// rest gives what has no event yet.
func (r *refusals) rest() (rest []journal.Payload) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, host := range slices.Sorted(maps.Keys(r.clients)) {
		client := r.clients[host]
		client.timer.Stop()
		if client.last.Times > 0 {
			rest = append(rest, client.last)
		}
	}
	clear(r.clients)
	return rest
}

func (r *refusals) append(refused journal.Refused) {
	if err := r.journal(refused); err != nil {
		r.log.Warn("a refused request could not be journalled", "request", refused.Request, "by", refused.By, "error", err)
	}
}

// hostOf is the address without the port, which is another one for each connection.
func hostOf(by string) string {
	first, _, _ := strings.Cut(by, " ")
	if host, _, err := net.SplitHostPort(first); err == nil {
		return host
	}
	return first
}

// about is what a request is to change, as far as its fields tell. Who asks stands elsewhere.
func about(request jobnet.Request) string {
	var parts []string
	fields := request.Fields()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == "by" {
			continue
		}
		value := fields[name]
		parts = append(parts, name+"="+cut(string(value[:min(len(value), mostRefusedFor+1)])))
	}
	return strings.Join(parts, " ")
}

// cut cuts a text of somebody else's to a readable length.
func cut(text string) string {
	if short := text[:min(len(text), mostRefusedFor)]; len(short) < len(text) {
		text = strings.ToValidUTF8(short, "") + "…"
	}
	return strings.ToValidUTF8(text, "�")
}

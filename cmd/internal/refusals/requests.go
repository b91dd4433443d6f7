// Package refusals journals the requests that a worker or a master refused, so many that nobody fills a
// disk with them, and counts the others. What was refused changed nothing: where the process is killed
// before an event is written, a refusal is missing, or a count of them.
package refusals

import (
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"jobd/journal"
	jobnet "jobd/net"
)

// Refused requests that would have changed something are part of the history. A client that sends
// them in a loop must not fill the journal: the first few a minute have an event each, and the
// others of that minute one event that counts them.
const (
	refusalTime    = time.Minute
	mostRefusals   = 10  // events a minute and client
	allRefusals    = 100 // events a minute, of all clients
	mostRefused    = 100 // clients that are told apart within a minute; those beyond count as one
	otherClients   = "others"
	mostRefusedFor = 200 // bytes of what was asked, and of why not
)

// Requests journals refused requests. Its methods are safe for concurrent use, and do not fail:
// nothing depends on what they journal.
type Requests struct {
	journal func(journal.Payload) error
	log     *slog.Logger

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

// New journals refused requests by note.
func New(note func(journal.Payload) error, log *slog.Logger) *Requests {
	return &Requests{journal: note, log: log, clients: make(map[string]*refusedClient)}
}

// Note journals a refusal, or counts it.
func (r *Requests) Note(refused journal.Refused) {
	refused.About, refused.Reason, refused.By = cut(refused.About), cut(refused.Reason), cut(refused.By)
	if r.count(&refused) {
		r.append(refused)
	}
}

// count tells whether a refusal is to have an event of its own.
func (r *Requests) count(refused *journal.Refused) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	host := ClientOf(refused.By)
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
func (r *Requests) end(host string) {
	r.mu.Lock()
	client := r.clients[host]
	delete(r.clients, host)
	r.mu.Unlock()
	if client != nil && client.last.Times > 0 {
		r.append(client.last)
	}
}

// LastWords is what the journal is to hold before the daemon's run ends: the refusals that have no
// event yet.
func (r *Requests) LastWords() (rest []journal.Payload) {
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

func (r *Requests) append(refused journal.Refused) {
	if err := r.journal(refused); err != nil {
		r.log.Warn("a refused request could not be journalled", "request", refused.Request, "by", refused.By, "error", err)
	}
}

// ClientOf is who asks, without port and process, which are others for each connection.
func ClientOf(by string) string {
	by, _, _ = strings.Cut(by, " via ")
	return connection.ReplaceAllString(by, "$1")
}

var connection = regexp.MustCompile(`(?::| pid )[0-9]+(\)?)$`)

// About is what the data of a request says is to be changed. Who asks stands elsewhere.
func About(data jobnet.Fields) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if name == "by" {
			continue
		}
		value := data[name]
		parts = append(parts, name+"="+cut(string(value[:min(len(value), mostRefusedFor+1)])))
	}
	return cut(strings.Join(parts, " "))
}

// cut cuts a text of somebody else's to a readable length.
func cut(text string) string {
	if short := text[:min(len(text), mostRefusedFor)]; len(short) < len(text) {
		text = strings.ToValidUTF8(short, "") + "…"
	}
	return strings.ToValidUTF8(text, "�")
}

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/check"
	jobdaemon "jobd/cmd/internal/daemon"
	"jobd/cmd/internal/gearman"
	"jobd/cmd/internal/metrics"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/page"
	"jobd/cmd/internal/refusals"
	"jobd/cmd/internal/service"
	"jobd/cmd/internal/web"
	"jobd/exec/board"
	"jobd/master"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
)

// The network: listeners and agents, and the handlers of requests.

// shutdownTimeout is how long clients and masters may take at a stop to take their answers.
const shutdownTimeout = 5 * time.Second

// networkPart is where clients reach the worker, and how it reaches its masters.
type networkPart struct {
	server *jobdaemon.Server
	web    *web.Server
	agents []*master.Agent
	words  func() string // how the worker stands, in a line

	front   *gearman.Front // nil: there is none
	gearman net.Listener   // of it

	reload func(by string) (api.Reloaded, error) // reads the configuration again
}

// daemon is what requests are answered from.
type daemon struct {
	*journalPart
	*tablePart
	*workerPart
	*networkPart
	*restarter
	service *service.Service
	log     logger
	memory  *memory
	reading *jobdaemon.Reading
	started time.Time
	readers chan struct{} // holds one for each client that Ended reads the journal for
}

// openNetwork takes the address and readies the agents. Clients and masters may ask the same;
// status tells of the agents too, so the handlers are given the part before it is complete. Nobody
// is served before all parts are made.
func (r *root) openNetwork(journal *journalPart, table *tablePart, worker *workerPart) (*networkPart, error) {
	p := &networkPart{}
	d := &daemon{
		journalPart: journal, tablePart: table, workerPart: worker, networkPart: p,
		restarter: &restarter{next: r.next, ending: r.ending, held: p.held, log: r.log},
		log:       r.log, memory: r.memory, reading: &r.reading, started: r.begun, readers: make(chan struct{}, mostReaders),
	}
	p.words = d.describe
	d.service = service.New(service.Config{
		Worker: worker.worker, Logger: r.log, Process: d, Refusals: worker.refusals,
		Table: table.table, Journal: journal.journal.Reader(), Owed: worker.mirror.Quarantined, PollInterval: r.jobs.pollInterval,
	})
	if journal.index != nil {
		d.service.Index = journal.index
	}
	handlers := r.metrics.Count(d.handlers())
	self, err := instance(journal.journalDir)
	if err != nil {
		return nil, err
	}
	for _, address := range r.masters.addresses {
		p.agents = append(p.agents, master.NewAgent(master.AgentConfig{
			Address: address, Name: r.name, Targets: worker.worker.TargetNames,
			Handlers: handlers, Password: r.Listen.Password, TLS: r.masters.tls.For(hostOf(address)), Scope: r.masters.most(),
			MaxMessageSize:   r.Listen.MaxMessageSize,
			ReconnectTimeout: r.masters.reconnect, DrainTimeout: shutdownTimeout, Leaves: r.ending.Stopping,
			Instance:     self + " at " + address, // two agents of this worker must not replace each other at one master
			OnRegistered: worker.worker.PollAll,   // nobody has heard what the master was poked for meanwhile
			Logger:       r.log,
		}))
	}
	sockets, err := r.manager.Sockets()
	if err != nil {
		return nil, err
	}
	p.server, err = jobdaemon.Listen(r.Listen, sockets, "clients", jobnet.ServerConfig{
		Handlers: handlers, Logger: r.log, OnLinks: r.memory.linked, Pulse: r.loop(journal, "accept"),
	})
	if err != nil {
		return nil, err
	}
	if p.web, err = r.openWeb(d); err != nil {
		return nil, errors.Join(err, p.server.Close())
	}
	if err = r.openGearman(p, table, worker); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *networkPart) close() error {
	err := errors.Join(p.web.Close(), p.server.Close())
	if p.front != nil {
		if closed := p.gearman.Close(); !errors.Is(closed, net.ErrClosed) {
			err = errors.Join(err, closed)
		}
	}
	return err
}

// address is where the worker listens.
func (p *networkPart) address() string { return p.server.Address() }

// held are all addresses where it listens, that for clients first.
func (p *networkPart) held() []string {
	all := append([]string{p.address()}, p.server.Sockets()...)
	if at := p.web.Address(); at != "" {
		all = append(all, at)
	}
	if p.front != nil {
		all = append(all, p.gearman.Addr().String())
	}
	return all
}

// actors are the server and the agents at work.
func (p *networkPart) actors() []jobdaemon.Actor {
	actors := []jobdaemon.Actor{func(ctx context.Context) error {
		return p.server.Serve(ctx, shutdownTimeout, "a client did not read its answer")
	}, p.web.Serve}
	for _, agent := range p.agents {
		actors = append(actors, agent.Run)
	}
	if p.front != nil {
		actors = append(actors, func(ctx context.Context) error { return p.front.Serve(ctx, p.gearman) })
	}
	return actors
}

// instance tells this worker from all others, for its masters: a worker that registers again takes
// the place of its former registration, whose link may be half dead. It is the same for every run
// with the same journal, which one process at a time can have, and for no other: it is made of the
// host and the journal's folder.
func instance(journalDir string) (string, error) {
	var folder unix.Stat_t
	if err := unix.Stat(journalDir, &folder); err != nil {
		return "", fmt.Errorf("journal folder %s: %w", journalDir, err)
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name of the host: %w", err)
	}
	machine, _ := os.ReadFile("/etc/machine-id") // not on every host
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d:%d", host, strings.TrimSpace(string(machine)), folder.Dev, folder.Ino))
	return hex.EncodeToString(sum[:8]), nil
}

// openWeb takes the address where the worker tells of itself over HTTP, if there is one.
func (r *root) openWeb(d *daemon) (*web.Server, error) {
	routes := web.Routes{
		Program: program, Health: web.Loops(r.pulse), Ready: d.ready,
		Metrics: r.metrics.Handler(metrics.Sources{
			Now: d.now,
			Waiting: func(ctx context.Context, targets []string) (api.WaitingRows, error) {
				return d.service.Waiting(ctx, service.Call{}, api.WaitingQuery{Targets: targets})
			},
		}),
	}
	routes.Page = page.New(page.Config{
		Name: r.name, ReadOnly: r.HTTP.ReadOnly, Log: r.log,
		Open: func(s *principal.Session) *operator.Daemon { return d.server.As(s, false) },
	})
	return web.Listen(r.HTTP, routes, d.server.Who(d.journalDir), r.log)
}

// oldestTimeout bounds the look for the oldest event that the table was not shown.
const oldestTimeout = time.Second

// now is how the worker stands, for a scrape.
func (d *daemon) now() (now metrics.Now) {
	now.Status, _ = d.service.Status(context.Background(), service.Call{}, api.None{})
	reached, newest := d.mirror.Reached(), d.newest()
	if newest > reached {
		now.Unshown, now.UnshownFrom = newest-reached, d.unshownSince(reached)
	}
	now.Outages, now.RunnerLinks = d.mirror.Outages(), d.runner.Standing().Links
	if free, total, err := check.Free(d.journalDir); err == nil {
		now.Free, now.Total = free, total
	}
	if d.index != nil {
		standing := d.index.Standing(context.Background())
		now.Index, now.IndexLag, now.IndexBehind = true, standing.Lag, standing.Behind
		now.IndexStopped = standing.Stopped != ""
	}
	return now
}

// unshownSince is when the first event behind one was journalled; zero where there is none, or the
// journal does not tell.
func (d *daemon) unshownSince(shown uint64) time.Time {
	if d.newest() <= shown {
		return time.Time{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), oldestTimeout)
	defer cancel()
	events, err := d.journal.Next(ctx, shown, 1)
	if err != nil || len(events) == 0 {
		return time.Time{}
	}
	return events[0].Time
}

// ready says why the worker may not take work at the moment.
func (d *daemon) ready() []api.NotReady {
	status, err := d.service.Status(context.Background(), service.Call{}, api.None{})
	if err != nil {
		return []api.NotReady{{What: "status", Why: err.Error()}}
	}
	return status.NotReady
}

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

package main

import (
	"context"
	"fmt"
	"maps"
	"net"

	"jobd/cmd/internal/gearman"
	"jobd/cmd/internal/socket"
	"jobd/cmd/internal/version"
	jobexec "jobd/exec"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/store/sqlite"
)

// newFront makes the front for Gearman; nil: there is none.
func (r *root) newFront(table *tablePart, standing func(jobexec.PoolStanding)) *gearman.Front {
	if !r.gearman.listen.On() {
		return nil
	}
	into, _ := table.table.(*sqlite.Table) // nil: nothing is inserted
	return gearman.New(gearman.Config{
		Name: r.name, Concurrency: r.gearman.concurrency, MaxPacket: r.gearman.maxPacket, Allow: r.gearman.allow,
		Version: version.Version, Table: into, Logger: r.log, OnStanding: standing,
	})
}

// foundTargets are the configured targets and those of rows that were submitted before this start.
func (r *root) foundTargets(front *gearman.Front, table *tablePart) (targets map[string]int, found map[string]*jobexec.Launcher) {
	into, is := table.table.(*sqlite.Table)
	if !is {
		return r.targets, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	names, err := into.Targets(ctx)
	if err != nil {
		r.log.Warn("functions of rows that wait are served when a client or a worker names them", "error", err)
	}
	targets = maps.Clone(r.targets)
	if targets == nil {
		targets = map[string]int{}
	}
	var added []string
	for _, name := range names {
		if _, configured := targets[name]; !configured && name != "null" {
			targets[name] = front.Slots(0)
			added = append(added, name)
		}
	}
	return targets, front.Found(added)
}

// openGearman takes the address where programs that were written for gearmand are served, if there is one.
func (r *root) openGearman(p *networkPart, table *tablePart, worker *workerPart) (err error) {
	if worker.front == nil {
		return nil
	}
	at := r.gearman.listen
	if at.Network == "unix" {
		p.gearman, err = socket.Listen(at.Address)
	} else {
		p.gearman, err = net.Listen(at.Network, at.Address)
	}
	if err != nil {
		return fmt.Errorf("listen for Gearman (key gearman_listen): %w", err)
	}
	who := p.server.Who("")
	if who.TLS != nil {
		p.gearman = jobnet.Offer(p.gearman, who.TLS)
	}
	p.front = worker.front
	p.front.Connect(gearman.Parts{
		Worker: worker.worker, Tried: worker.mirror.Tried, Reached: worker.mirror.Reached, Known: who.Server.Known, MustTLS: who.RequireTLS,
		Refused: func(refused journal.Refused) { worker.refusals.Note(refused) },
		Rows: func(ctx context.Context, ids []int64) ([]journal.Row, error) {
			rows, _, err := table.table.Rows(ctx, ids)
			return rows, err
		},
	})
	r.front.Store(p.front)
	r.log.Info("Gearman's clients and workers are served", "address", p.gearman.Addr().String())
	return nil
}

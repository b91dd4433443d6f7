package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/gearman"
	"jobd/cmd/internal/socket"
	"jobd/cmd/internal/version"
	jobexec "jobd/exec"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/store"
	"jobd/store/sqlite"
)

// gearmanConfig says where programs that were written for gearmand are served.
type gearmanConfig struct {
	listen      conf.HTTP // where; of it the address alone
	concurrency int
	maxPacket   int
	allow       []netip.Prefix
}

// The bounds of gearman_max_packet: as much as all packets together may have in memory.
const (
	leastPacket = 64 << 10
	mostPacket  = 256 << 20
)

func (c *gearmanConfig) register(set *conf.Set) {
	set.Group("Gearman")
	set.Add("gearman_listen", "", "address and port, or absolute path of a unix socket, for [clients and workers of Gearman](gearman.md)", c.listen.Decode)
	set.Add("gearman_allow", "", "addresses and networks, separated by commas, that may connect besides this host: `10.0.0.0/8`", c.decodeAllow)
	set.Add("gearman_concurrency", "0", "how many jobs of a function that `[targets]` does not name may run at once; 0: as many as its workers that are connected", conf.Int(&c.concurrency, 0, math.MaxInt32))
	set.Add("gearman_max_packet", "64MiB", "the longest packet, from 64KiB to 256MiB", conf.Size(&c.maxPacket, leastPacket, mostPacket))
}

// decodeAllow takes addresses and networks.
func (c *gearmanConfig) decodeAllow(text string) error {
	c.allow = nil
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if word == "" && text == "" {
			return nil
		}
		network, err := netip.ParsePrefix(word)
		if address, other := netip.ParseAddr(word); other == nil {
			network, err = address.Unmap().Prefix(address.Unmap().BitLen())
		}
		if err != nil {
			return errors.New("addresses and networks with commas, as in 10.0.0.0/8, 192.168.1.7")
		}
		c.allow = append(c.allow, network)
	}
	return nil
}

// submitted are the optional columns that rows need which Gearman's clients submit.
var submitted = []string{store.ColumnRunAt, store.ColumnPlannedAt, store.ColumnAttempts, store.ColumnPriority, store.ColumnUniqueKey}

// validateGearman finds what is wrong with the keys, and sets what they mean for others: rows that are inserted need the
// optional columns, and functions need neither targets nor a launcher.
func (c *config) validateGearman(set *conf.Set) {
	g := &c.gearman
	for _, key := range []string{"gearman_allow", "gearman_concurrency", "gearman_max_packet"} {
		if set.Given(key) && !g.listen.On() {
			set.Bad(key, "it has no effect without gearman_listen")
		}
	}
	switch {
	case !c.submits():
	case !set.Given("use_columns"):
		c.time.uses = store.TimeColumns()
	case slices.ContainsFunc(submitted, func(name string) bool { return !c.time.uses.Has(name) }):
		set.Bad("use_columns", "rows that Gearman's clients submit need "+strings.Join(submitted, ", ")+"; allowed: a list that has them, or all")
	}
	if c.submits() && c.launcher.command == "" {
		c.launcher.command = gearmanLauncher
	}
}

// gearmanLauncher is the launcher of jobs that Gearman workers run.
const gearmanLauncher = "gearman"

// submits tells whether rows are inserted.
func (c *config) submits() bool { return c.gearman.listen.On() && c.store.kind == storeSQLite }

// validateGearmanLaunchers refuses what Gearman workers are to run that can't connect.
func (c *config) validateGearmanLaunchers(set *conf.Set) {
	if c.gearman.listen.On() {
		return
	}
	bad := func(key string, runs jobexec.Mode) {
		if runs == jobexec.ModeGearman && set.Given(key) {
			set.Bad(key, "no Gearman worker can connect; allowed: gearman beside gearman_listen")
		}
	}
	bad("launcher", c.launcher.runs)
	for name, target := range c.sections {
		bad(keyOf(name, "launcher"), target.launcher.runs)
	}
}

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
	names, err := into.Functions(ctx)
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

// gearmanLock is held by the worker that serves Gearman's programs on a table's file: who waits for which row is in its
// memory. It is the name of no worker.
const gearmanLock = "\x00gearman"

// openGearman takes the address where programs that were written for gearmand are served, if there is one.
func (r *root) openGearman(p *networkPart, table *tablePart, worker *workerPart) (err error) {
	if worker.front == nil {
		return nil
	}
	if into, is := table.table.(*sqlite.Table); is {
		ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
		defer cancel()
		switch holder, err := into.Hold(ctx, gearmanLock); {
		case err != nil:
			return fmt.Errorf("gearman_listen: %w", err)
		case holder != "":
			return errors.New("gearman_listen: another worker serves Gearman on this table's file; only one may")
		}
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
	var newest uint64
	worker.history.journal.View(func(s *journal.State) { newest = s.Seq })
	p.front.Connect(gearman.Parts{
		Worker: worker.worker, Shown: worker.mirror.Shown, Reached: worker.mirror.Reached, CaughtUp: worker.mirror.Tried(newest), Known: who.Server.Known, MustTLS: who.RequireTLS,
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

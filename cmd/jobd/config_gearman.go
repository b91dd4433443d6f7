package main

import (
	"errors"
	"math"
	"net/netip"
	"slices"
	"strings"

	"jobd/cmd/internal/conf"
	jobexec "jobd/exec"
	"jobd/store"
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
	set.Add("gearman_allow", "", "addresses and networks, with commas, that may connect beside this host: `10.0.0.0/8`", c.decodeAllow)
	set.Add("gearman_concurrency", "0", "how many jobs may run at once of a function that `[targets]` does not name; 0: as many as workers are connected", conf.Int(&c.concurrency, 0, math.MaxInt32))
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
			set.Bad(key, "it says nothing without gearman_listen")
		}
	}
	switch {
	case !c.submits():
	case !set.Given("use_columns"):
		c.time.uses = store.TimeColumns()
	case slices.ContainsFunc(submitted, func(name string) bool { return !c.time.uses.Has(name) }):
		set.Bad("use_columns", "rows that Gearman's clients submit need "+strings.Join(submitted, ", ")+"; allowed is a list that has them, or all")
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
			set.Bad(key, "no Gearman worker can connect; allowed is gearman beside gearman_listen")
		}
	}
	bad("launcher", c.launcher.runs)
	for name, target := range c.sections {
		bad(keyOf(name, "launcher"), target.launcher.runs)
	}
}

package main

import (
	"context"
	"io"
	"time"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/daemon"
)

// config is everything that jobd-master can be told; docs/configuration.md describes the keys. On
// SIGHUP the master reads it again, and takes over the log levels.
type config struct {
	daemon.Settings
	pingInterval time.Duration
	pokeThrottle time.Duration
	journal      daemon.Journal
}

// parseConfig reads the configuration: see daemon.Settings.
func parseConfig(args, environ []string, stdout io.Writer) (c config, err error) {
	err = c.Read(about(), &c, args, environ, stdout)
	return c, err
}

// parts are the things that only a master needs.
func (c *config) parts() (parts []check.Part) {
	if c.journal.Dir != "" {
		parts = append(parts, check.Part{What: "journal", Look: func(ctx context.Context) []check.Finding {
			return c.journal.Look(ctx, []string{c.journal.Dir}, nil)
		}})
	}
	return parts
}

// about says what the program is.
func about() conf.Program {
	return conf.Program{
		Name:    "jobd-master",
		Summary: "jobd-master finds the workers that serve a target.",
		Prefix:  "JOBD_MASTER_",
		File:    "/etc/jobd-master.conf",
	}
}

// Register registers all keys, in the order of the help.
func (c *config) Register(set *conf.Set) {
	c.Listen.Register(set)
	c.HTTP.Register(set)
	set.Group("Workers")
	set.Add("ping_interval", "30", "how often each worker is pinged; a duration", conf.Duration(&c.pingInterval, time.Millisecond))
	set.Add("poke_throttle_interval", "0.5", "how long pokes are gathered; the first goes at once. 0: not at all", conf.Duration(&c.pokeThrottle, 0))
	c.Log.Register(set)
	set.Group("Journal")
	c.journal.Of, c.journal.Low = "master", "changes are refused"
	c.journal.Register(set, "there is none", "")
}

// Validate finds what is wrong with values that could be decoded.
func (c *config) Validate(set *conf.Set, _ []string) { c.journal.Validate(set) }

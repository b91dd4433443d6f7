package main

import (
	"io"
	"time"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/logging"
	"jobd/cmd/internal/version"
)

// config is everything that jobd-master can be told; docs/configuration.md
// describes the keys. On SIGHUP it is read again, and the log levels are taken over.
type config struct {
	path     string   // the file that was read
	warnings []string // to be logged

	listen       conf.Listen
	pingInterval time.Duration
	pokeThrottle time.Duration
	log          logging.Config

	check check.Mode // look only: --check
}

// parseConfig reads the configuration from args, the environment (as of os.Environ) and the
// file. All mistakes are in the one error; --help and --version are answered
// on stdout and give an error with exit code 0.
func parseConfig(args, environ []string, stdout io.Writer) (config, error) {
	set := conf.New(conf.Program{
		Name:    "jobd-master",
		Summary: "jobd-master finds the workers that serve a target.\nWith --check it looks at all that it needs, tells what is wrong with it, and changes nothing.",
		Version: version.Version,
		Prefix:  "JOBD_MASTER_",
		File:    "/etc/jobd-master.conf",
	})
	var c config
	c.check.Register(set)
	c.register(set)
	if err := set.Parse(args, environ, stdout); err != nil {
		return config{}, err
	}
	c.listen.Validate(set)
	c.path, c.warnings = set.Path(), set.Warnings()
	return c, set.Err()
}

func (c *config) register(set *conf.Set) {
	c.listen.Register(set)
	set.Add("ping_interval", "30", "how often each worker is pinged", conf.Duration(&c.pingInterval, time.Millisecond))
	set.Add("poke_throttle_interval", "0.5", "how long pokes are gathered; 0: not at all", conf.Duration(&c.pokeThrottle, 0))
	c.log.Register(set)
}

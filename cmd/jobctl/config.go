package main

import (
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/logging"
	"jobd/cmd/internal/version"
)

// The ports where a daemon listens if nothing else is said.
const (
	workerPort = 7080
	masterPort = 7081
)

// config is everything that jobctl can be told about how to reach a daemon.
type config struct {
	master      bool
	host        string
	port        int
	masterPort  int // 0: not given
	password    string
	askPassword bool
	log         logging.Config // of the console only
	output      string         // "table" or "json"
	precise     bool           // times to the microsecond, also for people
	timeout     time.Duration  // 0: no limit
}

func newSet(environ []string, usage func(io.Writer) bool) *conf.Set {
	return conf.New(conf.Program{
		Name:    "jobctl",
		Version: version.Version,
		Build:   version.Of().Text("jobctl"),
		Prefix:  "JOBCTL_",
		File:    defaultFile(environ),
		Usage:   usage,
	})
}

// defaultFile is ~/.jobctl.conf; "" for somebody without a home.
func defaultFile(environ []string) string {
	for _, variable := range environ {
		if home, found := strings.CutPrefix(variable, "HOME="); found && home != "" {
			return filepath.Join(home, ".jobctl.conf")
		}
	}
	return ""
}

func (c *config) register(set *conf.Set) {
	set.AddProfiles("host", "port", "master", "master_port", "password", "password_file")
	set.Add("master", "false", "talk to a master instead of a worker", conf.Bool(&c.master)).Switch()
	set.Add("host", "127.0.0.1", "where it listens", conf.Host(&c.host, "port")).Alias("hostname")
	set.Add("port", "", "its port; 7080 if not given, with --master 7081", conf.Int(&c.port, 1, 65535))
	set.Add("master_port", "", "with --master, its port in place of --port, so that a file can have both", conf.Int(&c.masterPort, 1, 65535))
	set.Add("password", "", "ask for the password; the file and JOBCTL_PASSWORD may hold it", conf.Text(&c.password)).Switch().Secret().Kept()
	set.Add("log_level", "warn", "what goes to stderr: trace, debug, info, warn or error", conf.Level(&c.log.ConsoleLevel))
	set.Add("output", "table", "table, or json for the answer's data", conf.OneOf(&c.output, "table", "json"))
	set.Add("precise", "false", "on a terminal, too, times to the microsecond and with their date", conf.Bool(&c.precise)).Switch()
	set.Add("timeout", "", "how long the command may take in all; 0: no limit. Without it each answer may take 10 s, and what waits for jobs any time", conf.Duration(&c.timeout, 0))
}

func (c *config) validate(set *conf.Set) {
	if set.Given("password") && set.FromFlag("password") {
		if c.password != "true" {
			set.Bad("password", "takes no value: it asks, so that nobody sees the password in the list of processes")
		}
		c.password, c.askPassword = "", true
	}
	c.choosePort(set)
	c.keepPassword(set)
}

// choosePort finds the port of the daemon that is meant. A --port is meant as it is. Else master_port
// is the master's, unless the environment has a port and the file the master_port; and without one a
// port of the file is the master's, too, as it ever was: but in a profile only if it is that of a
// master.
func (c *config) choosePort(set *conf.Set) {
	overruled := set.FromFlag("port") || set.Given("port") && !set.FromFile("port") && set.FromFile("master_port")
	switch {
	case c.master && c.masterPort != 0 && (!overruled || set.FromFlag("master_port")):
		c.port = c.masterPort
	case set.FromFile("port") && c.master && set.Profile() != "" && !set.FromFile("master"):
		c.port = masterPort
	case set.Given("port"):
	case c.master:
		c.port = masterPort
	default:
		c.port = workerPort
	}
}

// keepPassword drops the password of a profile where the command line names another host: no host
// hears another one's.
func (c *config) keepPassword(set *conf.Set) {
	if set.Profile() != "" && set.FromFlag("host") && c.password != "" && set.FromFile("password") {
		c.password = ""
		set.Warn("host", "the password of @"+clean(set.Profile())+" is not sent to a host that the command line names; --password asks for one")
	}
}

func (c *config) address() string {
	return net.JoinHostPort(strings.Trim(c.host, "[]"), strconv.Itoa(c.port))
}

package main

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
)

// masterConfig says which masters the worker registers with.
type masterConfig struct {
	hosts     string
	port      int
	addresses []string // host:port; none: no master
	reconnect time.Duration
}

func (c *masterConfig) register(set *conf.Set) {
	set.Add("master_host", "", "the master; several: a, b:7082", conf.Text(&c.hosts))
	set.Add("master_port", "", "its port", conf.Int(&c.port, 1, 65535))
	set.Add("master_reconnect_timeout", "10", "the wait before a lost master is tried again", conf.Duration(&c.reconnect, time.Millisecond))
}

// validate builds the addresses. A host without a port, while there is no
// master_port, is none: that is how the original understood it.
func (c *masterConfig) validate(set *conf.Set) {
	for host := range strings.SplitSeq(c.hosts, ",") {
		host = strings.TrimSpace(host)
		if host == "" {
			continue
		}
		name, port, err := c.split(host)
		switch {
		case strings.ContainsAny(host, "/@ \t"):
			set.Warn("master_host", "one of its names is not used, being neither a name nor an address; allowed are names and addresses, each with :port or without, as in: a, b:7082, [::1]:7081")
		case err != nil:
			set.Bad("master_host", set.Shown("master_host", host)+" is not allowed; allowed are names and addresses, each with :port or without, as in: a, b:7082, [::1]:7081")
		case port == 0 && !set.Given("master_port"):
			set.Warn("master_host", set.Shown("master_host", host)+" is not used: it has no port, and there is no master_port")
		case port != 0 && slices.Contains(c.addresses, net.JoinHostPort(name, strconv.Itoa(port))):
			set.Warn("master_host", set.Shown("master_host", host)+" stands there twice; the worker registers with it once")
		case port != 0:
			c.addresses = append(c.addresses, net.JoinHostPort(name, strconv.Itoa(port)))
		}
	}
}

// split takes a port off host, or uses master_port; 0 is none.
func (c *masterConfig) split(host string) (name string, port int, err error) {
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(bare); err == nil || !strings.Contains(host, ":") {
		return bare, c.port, nil
	}
	name, text, err := net.SplitHostPort(host)
	if err != nil {
		return "", 0, err
	}
	if name == "" {
		return "", 0, fmt.Errorf("no host in %q", host)
	}
	if err := conf.Int(&port, 1, 65535)(text); err != nil {
		return "", 0, err
	}
	return name, port, nil
}

package conf

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	jobnet "jobd/net"
)

// Listen says where a daemon listens, and to whom. Both daemons have these keys.
type Listen struct {
	Host           string
	Port           int
	Password       string // "": the daemon asks for none
	AllowLocalhost bool
	MaxMessageSize int64 // bytes
}

// Register registers the keys.
func (l *Listen) Register(set *Set) {
	set.Add("host", "", "address or name to listen on; :: for all", Host(&l.Host, "port"))
	set.Add("port", "", "port to listen on; 0 for any", Int(&l.Port, 0, 65535))
	set.Add("password", "", "what everybody who connects must know; better kept in the file", Text(&l.Password)).Secret().Kept()
	set.Add("always_allow_localhost", "false", "clients on this host need no password", Bool(&l.AllowLocalhost)).Switch()
	set.Add("max_message_size", "16MiB", "longest message accepted", Size(&l.MaxMessageSize, 64<<10, 1<<30))
}

// Validate requires an address, and warns of a daemon that listens beyond its host and asks for
// no password, or for one that can be guessed.
func (l *Listen) Validate(set *Set) {
	set.Require("", "host", "port")
	if l.Host != "" && l.Password == "" && !isLoopback(l.Host) {
		set.Warn("host", "it listens beyond this host, and there is no password: everybody who reaches the port gives it orders; set password, or host = 127.0.0.1")
	}
	if l.Host != "" && l.Password != "" && !Unread(l.Password) && jobnet.IsShort(l.Password) && !isLoopback(l.Host) {
		set.Warn("password", "it has fewer than 16 characters, and others reach the port: clients can be locked out "+
			"by wrong ones from their address; set a longer one, as openssl rand -base64 24 makes it")
	}
}

// Address is the address in the form that net.Listen takes.
func (l *Listen) Address() string {
	return net.JoinHostPort(strings.Trim(l.Host, "[]"), strconv.Itoa(l.Port))
}

// isLoopback tells whether only programs on this host can connect to a host's address.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
	}
	return address.Unmap().IsLoopback()
}

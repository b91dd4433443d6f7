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
	Unix           string // path of a socket; "": there is none
	Principals     string // the file of those who have credentials of their own; "": nobody has
	Password       string // "": the daemon asks for none
	AllowLocalhost bool
	MaxMessageSize int // bytes
	TLS            TLS
}

// Register registers the keys.
func (l *Listen) Register(set *Set) {
	set.Group("Clients")
	set.Add("host", "", "address or name to listen on; `::` is every address", Host(&l.Host, "port")).Without("required without `listen_unix`")
	set.Add("port", "", "port to listen on; 0: any free one", Int(&l.Port, 0, 65535)).Without("required with `host`")
	set.Add("listen_unix", "", "absolute path of a [unix socket](security.md#unix-sockets) (mode 0660), beside or in place of `host` and `port`", Socket(&l.Unix))
	set.Add("password", "", "the password that clients must give; empty: none", Text(&l.Password)).Secret().Kept()
	set.Add("principals_file", "", "a file of [who may do what](security.md#principals); read again when it changes", NonEmpty(&l.Principals))
	set.Add("always_allow_localhost", "false", "clients on this host need no password", Bool(&l.AllowLocalhost)).Switch()
	set.Add("max_message_size", "16MiB", "the longest message accepted, from 64KiB to 1GiB", Size(&l.MaxMessageSize, 64<<10, 1<<30))
	l.TLS.register(set)
}

// Validate requires an address, and warns of a daemon that listens beyond its host and asks for
// no password, or for one that can be guessed.
func (l *Listen) Validate(set *Set) {
	if l.Unix == "" || set.Given("host") || set.Given("port") {
		set.Require("", "host", "port")
	}
	l.TLS.validate(set)
	if l.Host != "" && l.Password == "" && l.Principals == "" && !isLoopback(l.Host) {
		set.Warn("host", "it listens beyond this host, and there is no password: everybody who reaches the port gives it orders; set password, or host = 127.0.0.1")
	}
	if l.Host != "" && l.Password != "" && !Unread(l.Password) && jobnet.IsShort(l.Password) && !isLoopback(l.Host) {
		set.Warn("password", "it has fewer than 16 characters, and others reach the port: clients can be locked out "+
			"by wrong ones from their address; set a longer one, as openssl rand -base64 24 makes it")
	}
}

// Address is the address in the form that net.Listen takes; without host and port, the socket.
func (l *Listen) Address() string {
	if l.Host == "" {
		return l.Unix
	}
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

package conf

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

// HTTP says where a daemon tells of itself over HTTP. Both daemons have this key. The zero value:
// nowhere.
type HTTP struct {
	Network string // tcp or unix
	Address string // host:port, or the socket's path
}

// longestSocket is how many bytes the path of a unix socket may have.
const longestSocket = 107

var errHTTP = errors.New("an address and a port, as in 127.0.0.1:9180 (all addresses of this host are 0.0.0.0), or the absolute path of a unix socket")

// Register registers the key.
func (h *HTTP) Register(set *Set) {
	set.Add("http_listen", "", "address and port, or a unix socket's path, for /metrics, /healthz and /readyz; nowhere if not given", h.decode)
}

// decode takes an address with its host: one without would be all addresses, which nobody is to
// get by leaving something out.
func (h *HTTP) decode(text string) error {
	*h = HTTP{}
	switch {
	case text == "":
		return nil
	case strings.HasPrefix(text, "/") && len(text) <= longestSocket:
		*h = HTTP{"unix", text}
		return nil
	}
	host, port, err := net.SplitHostPort(text)
	var bare string
	var number int
	if err != nil || host == "" || host == "*" || Host(&bare, "")(host) != nil || Int(&number, 0, 65535)(port) != nil {
		return errHTTP
	}
	*h = HTTP{"tcp", net.JoinHostPort(host, strconv.Itoa(number))}
	return nil
}

// On tells whether the daemon is to tell of itself.
func (h *HTTP) On() bool { return h.Network != "" }

// Validate warns of an address that others reach.
func (h *HTTP) Validate(set *Set) {
	if host, _, _ := net.SplitHostPort(h.Address); h.Network == "tcp" && !isLoopback(host) {
		set.Warn("http_listen", "it listens beyond this host, and asks for no password: everybody who reaches the port reads the names of targets, numbers, and errors with the names of hosts and accounts; 127.0.0.1 or a unix socket is for this host only")
	}
}

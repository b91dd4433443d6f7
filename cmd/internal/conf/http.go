package conf

import (
	"errors"
	"net"
	"os/user"
	"strconv"
	"strings"
)

// HTTP says where a daemon answers over HTTP, and whom it believes there. Both daemons have these keys. The zero
// value: nowhere.
type HTTP struct {
	Network    string   // tcp or unix
	Address    string   // host:port, or the socket's path
	Hosts      []string // names of this host beside its own
	ClientCert bool     // certificates count
	UserHeader string   // in which a proxy names who asks; "": none does
	Proxies    []string // that are believed: uid:NUMBER and cert:NAME
	ReadOnly   bool     // nobody changes anything over HTTP
}

var errHTTP = errors.New("an address and a port, as in 127.0.0.1:9180 (0.0.0.0 for all addresses of this host), or the absolute path of a unix socket")

// Register registers the keys.
func (h *HTTP) Register(set *Set) {
	set.Add("http_listen", "", "address and port, or absolute path of a unix socket (mode 0660), for [the page](page.md), [metrics and health](monitoring.md)", h.Decode)
	set.Add("http_hosts", "", "further names of the host, with commas, by which browsers may ask", list(&h.Hosts, func(name string) (string, error) {
		return name, Host(&name, "http_listen")(name)
	}))
	set.Add("http_client_cert", "no", "accept client certificates over HTTP", YesNo(&h.ClientCert)).Switch()
	set.Add("http_user_header", "", "the header in which `http_proxy` names who asks", header(&h.UserHeader))
	set.Add("http_proxy", "", "trusted [proxies](security.md#over-http), with commas: `uid:ACCOUNT`, `cert:NAME`", list(&h.Proxies, proxy))
	set.Add("http_read_only", "no", "nobody changes anything over HTTP", YesNo(&h.ReadOnly)).Switch()
}

// Decode takes an address with its host: one without would be all addresses, which nobody is to
// get by leaving something out.
func (h *HTTP) Decode(text string) error {
	h.Network, h.Address = "", ""
	switch {
	case text == "":
		return nil
	case Socket(&h.Address)(text) == nil:
		h.Network = "unix"
		return nil
	}
	host, port, err := net.SplitHostPort(text)
	var bare string
	var number int
	if err != nil || host == "" || host == "*" || Host(&bare, "")(host) != nil || Int(&number, 0, 65535)(port) != nil {
		return errHTTP
	}
	h.Network, h.Address = "tcp", net.JoinHostPort(host, strconv.Itoa(number))
	return nil
}

// list takes words with commas.
func list(field *[]string, each func(word string) (string, error)) Decode {
	return func(text string) error {
		*field = nil
		for word := range strings.SplitSeq(text, ",") {
			if word = strings.TrimSpace(word); word == "" && text == "" {
				return nil
			}
			word, err := each(word)
			if err != nil {
				return err
			}
			*field = append(*field, word)
		}
		return nil
	}
}

// header takes the name of a header that says nothing else.
func header(field *string) Decode {
	return func(text string) error {
		odd := strings.ContainsFunc(text, func(r rune) bool {
			return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		})
		if odd || strings.EqualFold(text, "Authorization") || strings.EqualFold(text, "Cookie") || strings.EqualFold(text, "Host") {
			return errors.New("the name of a header of letters, digits and -, as X-Forwarded-User")
		}
		*field = text
		return nil
	}
}

// proxy takes a proxy's account or certificate.
func proxy(word string) (string, error) {
	kind, name, _ := strings.Cut(word, ":")
	switch {
	case kind == "cert" && name != "" && !strings.Contains(name, "*"):
		return word, nil
	case kind == "uid":
		if uid, err := strconv.ParseUint(name, 10, 32); err == nil {
			return "uid:" + strconv.FormatUint(uid, 10), nil
		}
		if known, err := user.Lookup(name); err == nil {
			return "uid:" + known.Uid, nil
		}
		return "", errors.New("uid:ACCOUNT with an account of this host")
	}
	return "", errors.New("uid:ACCOUNT, for a proxy on a unix socket, and cert:NAME, a DNS name of its certificate")
}

// On tells whether the daemon is to tell of itself.
func (h *HTTP) On() bool { return h.Network != "" }

// AsksForCertificates tells whether clients are asked for one.
func (h *HTTP) AsksForCertificates() bool {
	return h.ClientCert || strings.Contains(strings.Join(h.Proxies, ","), "cert:")
}

// Validate refuses the address where the daemon itself listens, and what says nothing without something else. It
// warns of an address that others reach.
func (h *HTTP) Validate(set *Set, daemon *Listen) {
	h.validateWho(set, daemon)
	if h.Network == "tcp" && h.Address == daemon.Address() && daemon.Port != 0 { // in other words it ends the start
		set.Bad("http_listen", "host and port are the same; allowed: another port")
		return
	}
	if h.Network == "unix" && h.Address == daemon.Unix {
		set.Bad("http_listen", "listen_unix is the same; allowed: another path")
	}
	if host, _, _ := net.SplitHostPort(h.Address); h.Network != "tcp" || isLoopback(host) {
		return
	}
	if daemon.Principals == "" {
		set.Warn("http_listen", "it listens beyond this host, and numbers need no password: everybody who reaches the port reads the names of targets, numbers, and errors with the names of hosts and accounts; set principals_file, or 127.0.0.1 or a unix socket, for this host only")
	}
	if (daemon.Principals != "" || daemon.Password != "") && !daemon.TLS.Required() {
		set.Warn("http_listen", "it listens beyond this host, and people may sign in without TLS: an eavesdropper reads their passwords, tokens and cookies; set tls_cert, tls_key and tls = require, or a unix socket for a proxy")
	}
}

// validateWho finds what says nothing without another key.
func (h *HTTP) validateWho(set *Set, daemon *Listen) {
	needs := func(given bool, key, needed string) {
		if given {
			set.Bad(key, "it has no effect without "+needed)
		}
	}
	needs(h.ClientCert && (daemon.TLS.Files.ClientCA == "" || daemon.Principals == ""), "http_client_cert", "tls_client_ca and principals_file")
	needs(h.UserHeader != "" && (len(h.Proxies) == 0 || daemon.Principals == ""), "http_user_header", "http_proxy and principals_file")
	needs(len(h.Proxies) > 0 && h.UserHeader == "", "http_proxy", "http_user_header")
	needs(daemon.TLS.Files.ClientCA == "" && !h.ClientCert && h.AsksForCertificates(), "http_proxy", "tls_client_ca, for cert:")
}

package request

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	jobexec "jobd/exec"
)

// httpService speaks HTTP/1.1 over connections of its own: each request is written once, to one
// connection that was there before, so nothing between here and the wire can send it again. Proxies,
// redirects and compression there are none.
type httpService struct {
	path    string // of the URL, with its query, and someID for the job's
	secret  string
	host    string // as requests name it
	address string // host:port, to dial
	secure  *tls.Config
}

// newHTTP makes the service of a URL, or says what is wrong with that.
func newHTTP(of jobexec.Service, roots *x509.CertPool) (*httpService, error) {
	u, err := parse(of.URL)
	if err != nil {
		return nil, err
	}
	h := &httpService{path: u.RequestURI(), secret: of.Secret, host: u.Host}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
		h.secure = &tls.Config{
			ServerName: u.Hostname(), RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		}
	}
	if u.Port() != "" {
		port = u.Port()
	}
	h.address = net.JoinHostPort(u.Hostname(), port)
	return h, nil
}

// someID stands for a job's id while a URL is read.
const someID = "8613270945861327094"

// parse reads the URL, with someID for {id}. What is wrong with it is told without it: there may be a
// password in it.
func parse(launcher string) (*url.URL, error) {
	u, err := url.Parse(strings.ReplaceAll(launcher, "{id}", someID))
	if err != nil {
		var cause *url.Error
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, fmt.Errorf("the launcher's URL can't be read: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the launcher's URL must begin with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("the launcher's URL names no host")
	case u.User != nil:
		return nil, errors.New("the launcher's URL has a name or a password in it, which anybody could read: launcher_secret signs requests")
	case strings.Contains(u.Host, someID):
		return nil, errors.New("the launcher's URL may have {id} in its path and query only")
	case !visible(u.Host) || !visible(u.RequestURI()):
		return nil, errors.New("the launcher's URL has characters that are to be percent-encoded, or a host that is to be in punycode")
	}
	return u, nil
}

// visible tells whether a text has visible ASCII characters only.
func visible(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

func (h *httpService) where() string {
	if h.secure != nil {
		return "https://" + h.address
	}
	return "http://" + h.address
}

// dial connects, and makes TLS where that is wanted.
func (h *httpService) dial(ctx context.Context) (*connection, error) {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "tcp", h.address)
	if err != nil {
		return nil, err
	}
	address := namedAddress(h.address, raw.RemoteAddr())
	if h.secure == nil {
		return connected(raw, address), nil
	}
	secured := tls.Client(raw, h.secure)
	if err := secured.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return connected(secured, address), nil
}

// namedAddress is where a connection leads to: IP:PORT, behind the host's name where it has one.
func namedAddress(dialled string, remote net.Addr) string {
	if host, _, err := net.SplitHostPort(dialled); err == nil && net.ParseIP(host) == nil {
		return host + " " + remote.String()
	}
	return remote.String()
}

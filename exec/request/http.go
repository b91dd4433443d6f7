package request

import (
	"cmp"
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
	unread  error // why nobody knows to where
}

// newHTTP makes the service of a URL, which the configuration has looked at.
func newHTTP(of jobexec.Service, roots *x509.CertPool) *httpService {
	u, err := url.Parse(strings.ReplaceAll(of.URL, "{id}", someID))
	if err != nil {
		return &httpService{unread: errors.New("the launcher's URL can't be read")} // there may be a password in it
	}
	h := &httpService{path: u.RequestURI(), secret: of.Secret, host: u.Host}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
		h.secure = &tls.Config{
			ServerName: u.Hostname(), RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		}
	}
	h.address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	return h
}

// someID stands for a job's id while a URL is read.
const someID = "8613270945861327094"

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
	if h.unread != nil {
		return nil, h.unread
	}
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

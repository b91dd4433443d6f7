package cert

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// Trust says whom a client trusts, and what it shows.
type Trust struct {
	CA        string // a file with the certificates of authorities; "": those of the system
	Name      string // that the server's certificate must have; "": the host that is called
	Cert, Key string // what the client shows; "": nothing
	// Own is a daemon's own pair, which is shown to a server that asks for one of its authority, unless Usable
	// says why not.
	Own Files
}

// Usable is the pair as a client may show it. A server ends the handshake with one that has expired, or is for
// servers only.
func (f Files) Usable() (pair tls.Certificate, err error) {
	now, err := f.read()
	if err == nil {
		pair, err = pairOf(f.Cert, f.Key, now[0], now[1])
	}
	if err == nil && time.Now().After(pair.Leaf.NotAfter) {
		err = fmt.Errorf("certificate %s: %s", f.Cert, doubt(pair.Leaf))
	}
	if err == nil && len(pair.Leaf.ExtKeyUsage)+len(pair.Leaf.UnknownExtKeyUsage) > 0 &&
		!slices.Contains(pair.Leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) && !slices.Contains(pair.Leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		err = fmt.Errorf("certificate %s is for servers only: issue it with the extended key usage clientAuth too", f.Cert)
	}
	return pair, err
}

// Config is the configuration for one connection to a host.
func (t Trust) Config(host string) (config *tls.Config, err error) {
	config = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if t.Name != "" {
		config.ServerName = t.Name
	}
	now, err := Files{t.Cert, t.Key, t.CA}.read()
	if err == nil && t.CA != "" {
		config.RootCAs, err = pool(t.CA, now[2])
	}
	if err != nil {
		return nil, err
	}
	if t.Cert != "" || t.Key != "" {
		pair, err := pairOf(t.Cert, t.Key, now[0], now[1])
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if t.Own.Cert != "" && t.Own.Key != "" {
		if pair, err := t.Own.Usable(); err == nil { // else the server asks for another credential
			config.Certificates = append(config.Certificates, pair)
		}
	}
	return config, nil
}

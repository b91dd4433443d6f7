package cert

import "crypto/tls"

// Trust says whom a client trusts, and what it shows.
type Trust struct {
	CA        string // a file with the certificates of authorities; "": those of the system
	Name      string // that the server's certificate must have; "": the host that is called
	Cert, Key string // what the client shows; "": nothing
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
	return config, nil
}

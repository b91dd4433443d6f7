package cert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Files are a server's: a certificate with those that vouch for it, and its key, both PEM.
type Files struct {
	Cert, Key string
	// ClientCA is who vouches for certificates of clients, which are asked for then. A client may
	// come without one; one of another authority ends the handshake. "": none is asked for.
	ClientCA string
}

// Check tells why the files can't be used, if so, and what clients that verify will mind.
func (f Files) Check() (doubts string, err error) {
	k := kept{files: f}
	now, err := f.read()
	if err == nil {
		err = k.use(now)
	}
	if err != nil {
		return "", err
	}
	return doubt(k.config.Certificates[0].Leaf), nil
}

// lookEvery is how often files are looked at, at most; a handshake makes the look.
const lookEvery = time.Second

// Server is the configuration of a server. It fails where the files can't be used at the start.
func Server(files Files, log *slog.Logger) (*tls.Config, error) {
	k := &kept{files: files, log: log}
	now, err := files.read()
	if err == nil {
		err = k.use(now)
	}
	if err != nil {
		return nil, err
	}
	k.warn()
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.current(), nil },
	}, nil
}

// kept are the files as they were read last.
type kept struct {
	files Files
	log   *slog.Logger

	mu     sync.Mutex
	used   contents // what config is made of
	told   string   // why the files could not be used at the last look; "": they could
	looked time.Time
	config *tls.Config
}

// contents are those of Cert, Key and ClientCA; "" of one that is not given.
type contents [3]string

// read reads all files.
func (f Files) read() (all contents, err error) {
	for i, file := range []string{f.Cert, f.Key, f.ClientCA} {
		if file == "" {
			continue
		}
		if all[i], err = read(file); err != nil {
			return all, err
		}
	}
	return all, nil
}

// current is the configuration for a client that comes now.
func (k *kept) current() *tls.Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.looked) < lookEvery {
		return k.config
	}
	k.looked = time.Now()
	now, err := k.files.read()
	if err == nil && now != k.used {
		if err = k.use(now); err == nil {
			k.log.Info("the changed certificate is used from now on", "file", k.files.Cert)
			k.warn()
		}
	}
	switch {
	case err == nil:
		k.told = ""
	case err.Error() != k.told:
		k.told = err.Error()
		k.log.Error("the certificate was changed, and can't be used: the former one stays", "error", err)
	}
	return k.config
}

// warn tells what clients that verify will mind.
func (k *kept) warn() {
	if why := doubt(k.config.Certificates[0].Leaf); why != "" {
		k.log.Warn("clients that verify the certificate will refuse it", "file", k.files.Cert, "reason", why)
	}
}

// use makes a configuration of what was read. Callers must hold mu, or be the only ones that know of it.
func (k *kept) use(now contents) error {
	pair, err := pairOf(k.files.Cert, k.files.Key, now[0], now[1])
	if err != nil {
		return err
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true,
	}
	if k.files.ClientCA != "" {
		if config.ClientCAs, err = pool(k.files.ClientCA, now[2]); err != nil {
			return err
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	k.config, k.used = config, now
	return nil
}

// pairOf is a certificate with its key, of files with these contents.
func pairOf(certFile, keyFile, cert, key string) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		return pair, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
	}
	return pair, nil
}

// mostBytes is how long a file may be.
const mostBytes = 8 << 20

// read reads a file. One that is no plain file may keep its reader waiting, and with it all handshakes.
func read(file string) (string, error) {
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > mostBytes) {
		err = fmt.Errorf("%s: it must be a plain file of at most %d MiB", file, mostBytes>>20)
	}
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(file)
	return string(content), err
}

// doubt is what clients that verify will mind about a certificate; "": nothing.
func doubt(leaf *x509.Certificate) string {
	switch now := time.Now(); {
	case now.After(leaf.NotAfter):
		return "it has expired on " + leaf.NotAfter.UTC().Format(time.DateTime)
	case now.Before(leaf.NotBefore):
		return "it is not valid before " + leaf.NotBefore.UTC().Format(time.DateTime)
	case len(leaf.DNSNames)+len(leaf.IPAddresses) == 0:
		return "it has no name and no address (subjectAltName) that clients could verify"
	}
	return ""
}

// pool are the certificates of authorities, of a file with this content.
func pool(file, content string) (*x509.CertPool, error) {
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM([]byte(content)) {
		return nil, errors.New(file + ": it holds no certificate of an authority in PEM")
	}
	return authorities, nil
}

package cert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
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
	if err := k.read(); err != nil {
		return "", err
	}
	return doubt(k.config.Certificates[0].Leaf), nil
}

// lookEvery is how often files are looked at, at most; a handshake makes the look.
const lookEvery = time.Second

// Server is the configuration of a server. It fails where the files can't be used at the start.
func Server(files Files, log *slog.Logger) (*tls.Config, error) {
	k := &kept{files: files, log: log}
	if err := k.read(); err != nil {
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
	state  [3]state // of the files when they were read last, whether or not they could be used
	looked time.Time
	config *tls.Config
}

// state tells one version of a file from the next.
type state struct {
	modified time.Time
	size     int64
	changed  int64       // when its owner and mode were changed last, too
	file     os.FileInfo // for its number: a renewal may keep time and size
}

// stateOf is the state of a file; the zero one where it is not there.
func stateOf(path string) state {
	info, err := os.Stat(path)
	if path == "" || err != nil {
		return state{}
	}
	var changed int64
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		changed = stat.Ctim.Nano()
	}
	return state{info.ModTime(), info.Size(), changed, info}
}

func (s state) same(other state) bool {
	return s.modified.Equal(other.modified) && s.size == other.size && s.changed == other.changed &&
		(s.file == nil) == (other.file == nil) && (s.file == nil || os.SameFile(s.file, other.file))
}

// states are those of all files.
func (f Files) states() [3]state {
	return [3]state{stateOf(f.Cert), stateOf(f.Key), stateOf(f.ClientCA)}
}

// current is the configuration for a client that comes now.
func (k *kept) current() *tls.Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.looked) < lookEvery {
		return k.config
	}
	k.looked = time.Now()
	now := k.files.states()
	if now[0].same(k.state[0]) && now[1].same(k.state[1]) && now[2].same(k.state[2]) {
		return k.config
	}
	if err := k.read(); err != nil {
		k.log.Error("the certificate was changed, and can't be used: the former one stays", "error", err)
	} else {
		k.log.Info("the changed certificate is used from now on", "file", k.files.Cert)
		k.warn()
	}
	return k.config
}

// warn tells what clients that verify will mind.
func (k *kept) warn() {
	if why := doubt(k.config.Certificates[0].Leaf); why != "" {
		k.log.Warn("clients that verify the certificate will refuse it", "file", k.files.Cert, "reason", why)
	}
}

// read reads the files. Callers must hold mu, or be the only ones that know of it.
func (k *kept) read() error {
	k.state = k.files.states() // before the files: what changes meanwhile is read again
	pair, err := pairOf(k.files.Cert, k.files.Key)
	if err != nil {
		return err
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true,
	}
	if k.files.ClientCA != "" {
		if config.ClientCAs, err = pool(k.files.ClientCA); err != nil {
			return fmt.Errorf("tls_client_ca: %w", err)
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	k.config = config
	return nil
}

// pairOf reads a certificate and its key.
func pairOf(certFile, keyFile string) (pair tls.Certificate, err error) {
	var parts [2][]byte
	for i, file := range []string{certFile, keyFile} {
		if parts[i], err = read(file); err != nil {
			return pair, err
		}
	}
	if pair, err = tls.X509KeyPair(parts[0], parts[1]); err != nil {
		return pair, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
	}
	return pair, nil
}

// mostBytes is how long a file may be.
const mostBytes = 8 << 20

// read reads a file. One that is no plain file may keep its reader waiting, and with it all handshakes.
func read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > mostBytes) {
		err = fmt.Errorf("%s: it must be a plain file of at most %d MiB", file, mostBytes>>20)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file)
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

// pool reads the certificates of authorities.
func pool(file string) (*x509.CertPool, error) {
	content, err := read(file)
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s: %w", file, errors.New("it holds no certificate in PEM"))
	}
	return authorities, nil
}

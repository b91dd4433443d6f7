package mysql

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// A server that wants the whole password (the first link of an account by caching_sha2_password) gets
// it encrypted with an RSA key. Where nobody can be in between, that key may be the server's own
// word. On any other link it is the one that the configuration names: somebody in between would send
// a key of his own. With TLS, which verifies the server, no key is needed: the password goes over that.

// readKey reads a server's public key, as the server keeps it in public_key.pem, and says it in the
// status variable Caching_sha2_password_rsa_public_key.
func readKey(path string) (*rsa.PublicKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PUBLIC KEY in PEM", path)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	public, is := key.(*rsa.PublicKey)
	if !is {
		return nil, fmt.Errorf("%s holds a %T, not an RSA public key", path, key)
	}
	return public, nil
}

// isNear tells whether the server is on this host: nobody is in between.
func (c Config) isNear() bool {
	ip := net.ParseIP(c.Host)
	return strings.HasPrefix(c.Host, "/") || strings.EqualFold(c.Host, "localhost") || ip != nil && ip.IsLoopback()
}

// vouched registers the key for the driver, and gives its name; "": the server is asked for it. Where
// none may be taken from the server, and none is configured, it is one that nobody can read with, which
// keeps the driver from asking.
func (c Config) vouched() (name string, err error) {
	var key *rsa.PublicKey
	switch {
	case c.ServerKey != "":
		if key, err = readKey(c.ServerKey); err != nil {
			return "", fmt.Errorf("mysql_server_public_key: %w", err)
		}
	case c.isNear():
		return "", nil
	default:
		key = nobodys()
	}
	name = fmt.Sprintf("jobd-%x", sha256.Sum256(x509.MarshalPKCS1PublicKey(key)))
	driver.RegisterServerPubKey(name, key)
	return name, nil
}

// nobodys is a key whose private half is gone.
var nobodys = sync.OnceValue(func() *rsa.PublicKey {
	pair, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic("make a key: " + err.Error()) // the system's randomness never fails
	}
	return &pair.PublicKey
})

// prefer has one connection encrypted where the server can do that, and not only where it can be verified. The
// driver sends the whole password over any TLS: that it has TLS it forgets where the server was not verified, so
// that the password goes by a key that somebody vouches for, as without TLS.
func prefer(d *driver.Config) {
	d.AllowFallbackToPlaintext = true
	trusted := d.TLS.Clone()
	d.TLS.InsecureSkipVerify = true
	d.TLS.VerifyConnection = func(now tls.ConnectionState) error {
		options := x509.VerifyOptions{Roots: trusted.RootCAs, DNSName: trusted.ServerName, Intermediates: x509.NewCertPool()}
		for _, other := range now.PeerCertificates[1:] {
			options.Intermediates.AddCert(other)
		}
		if _, err := now.PeerCertificates[0].Verify(options); err != nil {
			d.TLS = nil // which the driver looks at again before it sends a password
		}
		return nil
	}
}

// wary makes connections to servers whose greeting does not ask for sha256_password: the driver answers that
// with the whole password before it knows whether the server can be verified.
func wary(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		greeting, err := greetingOf(ctx, conn)
		if err == nil && bytes.Contains(greeting, []byte("sha256_password")) { // wherever: the driver skips bytes before it
			err = errSHA256
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return &greeted{conn, greeting}, nil
	}
}

// greetingOf reads the first packet of a server.
func greetingOf(ctx context.Context, conn net.Conn) (packet []byte, err error) {
	if deadline, is := ctx.Deadline(); is {
		_ = conn.SetReadDeadline(deadline)
		defer func() { _ = conn.SetReadDeadline(time.Time{}) }()
	}
	packet = make([]byte, 4)
	if _, err = io.ReadFull(conn, packet); err != nil {
		return nil, err
	}
	body := make([]byte, int(packet[0])|int(packet[1])<<8|int(packet[2])<<16)
	_, err = io.ReadFull(conn, body)
	return append(packet, body...), err
}

// greeted is a connection whose greeting was read before.
type greeted struct {
	net.Conn
	greeting []byte // what of it nobody has read again
}

// Read implements net.Conn.
func (g *greeted) Read(b []byte) (n int, err error) {
	if len(g.greeting) == 0 {
		return g.Conn.Read(b)
	}
	n = copy(b, g.greeting)
	g.greeting = g.greeting[n:]
	return n, nil
}

// SyscallConn lets the driver see whether the server has hung up.
func (g *greeted) SyscallConn() (syscall.RawConn, error) {
	if conn, is := g.Conn.(syscall.Conn); is {
		return conn.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

var errSHA256 = errors.New("the server asks for sha256_password, and mysql_tls = preferred sends no such password to an unverified server: set mysql_tls = verify, or give the account caching_sha2_password")

// wantsKey is what a refusal may come from where the server can't be asked for its key.
const wantsKey = "; if user and password are right, the account may be one of caching_sha2_password, whose password is not " +
	"sent to a server that nobody vouches for: save the value of SHOW STATUS LIKE 'Caching_sha2_password_rsa_public_key' " +
	"to a file, and name that in mysql_server_public_key, or set mysql_tls = verify"

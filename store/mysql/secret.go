package mysql

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

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

// wantsKey is what a refusal may come from where the server can't be asked for its key.
const wantsKey = "; where these are right, the account may be one of caching_sha2_password, whose password is not " +
	"sent to a server that nobody vouches for: save the value of SHOW STATUS LIKE 'Caching_sha2_password_rsa_public_key' " +
	"to a file, and name that in mysql_server_public_key, or set mysql_tls = verify"

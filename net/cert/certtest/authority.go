// Package certtest makes certificates for tests: an Authority that nobody else trusts issues them for
// any names, fresh or expired, as the PEM files that the programs read.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"jobd/store/storetest/must"
)

// Authority issues certificates.
type Authority struct {
	File string // its own certificate, PEM

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority that nobody else trusts.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{File: filepath.Join(t.TempDir(), "ca.pem"), key: newKey(t)}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority for tests"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key))(t)
	write(t, a.File, "CERTIFICATE", der)
	return a
}

// Issue writes a certificate for names and addresses, and its key, into a folder.
func (a *Authority) Issue(t testing.TB, folder string, names ...string) (cert, key string) {
	t.Helper()
	return a.IssueUntil(t, folder, time.Now().Add(time.Hour), names...)
}

// IssueUntil is Issue for a certificate that ends at a time.
func (a *Authority) IssueUntil(t testing.TB, folder string, end time.Time, names ...string) (cert, key string) {
	t.Helper()
	return a.issue(t, folder, end, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, names)
}

// IssueForServers is Issue for a certificate that no client may show.
func (a *Authority) IssueForServers(t testing.TB, folder string, names ...string) (cert, key string) {
	t.Helper()
	return a.issue(t, folder, time.Now().Add(time.Hour), []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, names)
}

func (a *Authority) issue(t testing.TB, folder string, end time.Time, uses []x509.ExtKeyUsage, names []string) (cert, key string) {
	t.Helper()
	number := must.Get(rand.Int(rand.Reader, big.NewInt(1<<60)))(t)
	request := &x509.Certificate{
		SerialNumber: number, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: end,
		ExtKeyUsage: uses,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			request.IPAddresses = append(request.IPAddresses, ip)
		} else {
			request.DNSNames = append(request.DNSNames, name)
		}
	}
	private := newKey(t)
	der := must.Get(x509.CreateCertificate(rand.Reader, request, a.cert, &private.PublicKey, a.key))(t)
	secret := must.Get(x509.MarshalPKCS8PrivateKey(private))(t)
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	write(t, key, "PRIVATE KEY", secret)
	write(t, cert, "CERTIFICATE", der)
	return cert, key
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return key
}

// write puts a file in the place of a former one at once.
func write(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	must.Do(t, os.WriteFile(file+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	must.Do(t, os.Rename(file+".new", file))
}

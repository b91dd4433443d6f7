package net

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"jobd/net/cert"
	"jobd/net/cert/certtest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// withTLS is the configuration of a server with a certificate for 127.0.0.1, and whom its clients trust.
func withTLS(t *testing.T, config ServerConfig) (ServerConfig, cert.Trust) {
	t.Helper()
	authority := certtest.New(t)
	file, key := authority.Issue(t, t.TempDir(), "127.0.0.1", "master.example")
	var err error
	if config.TLS, err = cert.Server(cert.Files{Cert: file, Key: key}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	return config, cert.Trust{CA: authority.File}
}

// of gives the configuration of a client, as Connect wants it.
func of(trust cert.Trust) func() (*tls.Config, error) {
	return func() (*tls.Config, error) { return trust.Config("127.0.0.1") }
}

// trusting is the configuration of a client.
func trusting(t *testing.T, trust cert.Trust) *tls.Config {
	t.Helper()
	config := must.Get(trust.Config("127.0.0.1"))(t)
	return config
}

// Clients with TLS and without come to the same port, and get the same answers, short and long.
func TestTLSAndPlainOnOnePort(t *testing.T) {
	t.Parallel()
	config, trust := withTLS(t, ServerConfig{Password: "s3cret", Handlers: map[string]Handler{"echo": echo}})
	address, _ := serve(t, config)
	long := strings.Repeat("x", 3<<20)
	for name, secret := range map[string]func() (*tls.Config, error){"plain": nil, "TLS": of(trust)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := link(t, address, LinkConfig{Password: "s3cret", TLS: secret})
			for _, text := range []string{"short", long, "short again"} {
				answer, err := l.Request(within(t), "echo", text)
				if err != nil || string(answer) != `"`+text+`"` {
					t.Fatalf("answer of %d bytes, error %v", len(answer), err)
				}
			}
			check.Do(t, l.Ping(within(t)))
			wrong := link(t, address, LinkConfig{Password: "wrong", TLS: secret})
			if _, err := wrong.Request(within(t), "echo", "x"); err == nil || !strings.Contains(err.Error(), "invalid password") {
				t.Errorf("a wrong password: %v", err)
			}
		})
	}
}

// What a plain peer sends where TLS is required is not read; it is told so, if it speaks our protocol.
func TestTLSRequired(t *testing.T) {
	t.Parallel()
	config, trust := withTLS(t, ServerConfig{RequireTLS: true, Handlers: map[string]Handler{
		"echo": echo, "fatal": func(context.Context, *Link, Request) (any, error) { t.Error("run"); return nil, nil },
	}})
	address, _ := serve(t, config)
	plain := dial(t, address)
	plain.send(`[0,{"no":4,"type":"fatal"}]`, `[2]`)
	plain.expect(`[1,{"no":0,"error":"TLS is required here: call with tls = verify (jobctl) or master_tls = verify (a worker)"}]`)
	plain.expectEnd()
	browser := dial(t, address)
	browser.send("GET / HTTP/1.1\r\n\r\n")
	browser.expectEnd()
	must.Get(link(t, address, LinkConfig{TLS: of(trust)}).Request(within(t), "echo", 1))(t)
}

// A client says why it does not trust who is there, and nothing was sent to it.
func TestTLSOfSomebodyElse(t *testing.T) {
	t.Parallel()
	config, trust := withTLS(t, ServerConfig{})
	address, _ := serve(t, config)
	unsecured, _ := serve(t, ServerConfig{})
	elsewhere := trust
	elsewhere.Name = "another.example"
	for name, test := range map[string]struct {
		address string
		trust   cert.Trust
		want    string
	}{
		"foreign authority": {address, cert.Trust{CA: certtest.New(t).File}, "certificate signed by unknown authority"},
		"of another host":   {address, elsewhere, "not another.example"},
		"no TLS there":      {unsecured, trust, "TLS handshake failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Connect(within(t), test.address, LinkConfig{Password: "s3cret", TLS: of(test.trust)})
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.address) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	named := trust
	named.Name = "master.example"
	check.Do(t, link(t, address, LinkConfig{TLS: of(named)}).Ping(within(t)))
}

// Only TLS 1.2 and 1.3 are spoken, and a peer that speaks nonsense behind the first byte is let go.
func TestTLSVersionsAndNonsense(t *testing.T) {
	t.Parallel()
	config, trust := withTLS(t, ServerConfig{})
	address, _ := serve(t, config)
	for version, allowed := range map[uint16]bool{
		tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true,
	} {
		client := trusting(t, trust)
		client.MinVersion, client.MaxVersion = version, version
		conn, err := tls.Dial("tcp", address, client)
		if err == nil {
			conn.Close()
		}
		if (err == nil) != allowed {
			t.Errorf("%s: error %v", tls.VersionName(version), err)
		}
	}
	nonsense := dial(t, address)
	must.Get(nonsense.Write(append([]byte{firstOfTLS}, "nonsense, and more of it"...)))(t)
	if n, err := nonsense.Read(make([]byte, 100)); err == nil && n == 0 {
		t.Errorf("%d bytes, error %v", n, err)
	}
	nonsense.SetDeadline(time.Now().Add(patience))
	for err := error(nil); err == nil; _, err = nonsense.Read(make([]byte, 100)) { // its alert, and the end
	}
}

// A peer that begins a handshake and says no more has the time of one that gives no password.
func TestTLSHandshakeThatStops(t *testing.T) {
	t.Parallel()
	config, _ := withTLS(t, ServerConfig{Password: "s3cret", passwordTimeout: 50 * time.Millisecond})
	address, _ := serve(t, config)
	peer := dial(t, address)
	must.Get(peer.Write([]byte{firstOfTLS, 3, 1}))(t)
	peer.expectEnd()
}

// A client that says no more with TLS's own word still gets its answer, and so does one that was about to
// be dismissed.
func TestTLSHalfClosed(t *testing.T) {
	t.Parallel()
	proceed := make(chan struct{})
	config, trust := withTLS(t, ServerConfig{Handlers: map[string]Handler{
		"later": func(ctx context.Context, _ *Link, _ Request) (any, error) {
			select {
			case <-proceed:
				return "here", nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}})
	address, _ := serve(t, config)
	conn := must.Get(tls.Dial("tcp", address, trusting(t, trust)))(t)
	peer := pipeEnd(t, conn)
	peer.send(`[0,{"no":4,"type":"later"}]`)
	must.Do(t, conn.CloseWrite())
	close(proceed)
	check.Equal(t, strings.TrimSpace(peer.receive()), `[1,{"no":4,"data":"here"}]`, "received")
}

// The end of a link is told in TLS's words, as OpenSSL wants it, and a peer that takes nothing holds
// nobody up.
func TestTLSEndIsTold(t *testing.T) {
	t.Parallel()
	ended := make(chan *Link, 2)
	config, trust := withTLS(t, ServerConfig{Handlers: map[string]Handler{
		"close": func(_ context.Context, l *Link, _ Request) (any, error) {
			ended <- l
			return nil, l.Close()
		},
	}})
	address, _ := serve(t, config)
	conn := must.Get(tls.Dial("tcp", address, trusting(t, trust)))(t)
	peer := pipeEnd(t, conn)
	peer.send(`[0,{"no":4,"type":"close"}]`)
	if n, err := conn.Read(make([]byte, 1)); err == nil || err.Error() != "EOF" {
		t.Errorf("%d bytes, error %v, want io.EOF: the peer said its end", n, err)
	}
	<-ended
}

// bounds notes the deadlines of writes.
type bounds struct {
	net.Conn
	first time.Time
}

func (b *bounds) SetWriteDeadline(t time.Time) error {
	if b.first.IsZero() {
		b.first = t
	}
	return b.Conn.SetWriteDeadline(t)
}

// TLS answers a peer's new keys from where it reads, with no bound of its own, and its end waits for that. A
// peer that reads nothing would hold whoever closes the link, and all who wait for them.
func TestTLSEndWaitsForNoAnswerToNewKeys(t *testing.T) {
	t.Parallel()
	ours, other := net.Pipe() // nobody reads there
	defer other.Close()
	b := &bounds{Conn: ours}
	s := &secured{carrier: &carrier{Conn: b}}
	s.over.Store(tls.Client(s.carrier, &tls.Config{InsecureSkipVerify: true}))
	before := time.Now()
	check.Do(t, s.Close())
	if b.first.IsZero() || b.first.After(before.Add(time.Minute)) {
		t.Errorf("a write that was under way has until %v", b.first)
	}
}

// hostile is a certificate that nobody vouches for, with a name of many control characters.
func hostile(t *testing.T) tls.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	name := must.Get(asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: bytes.Repeat([]byte{1}, 50_000)}}))(t)
	request := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: name}},
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, request, request, &key.PublicKey, key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Of a peer's certificate errors and the log hold no more than of all else that peers say: a client's error
// about a hostile server, and the log of a server about a hostile client.
func TestTLSHostileCertificates(t *testing.T) {
	t.Parallel()
	config, trust := withTLS(t, ServerConfig{})
	config.TLS.GetConfigForClient, config.TLS.Certificates = nil, []tls.Certificate{hostile(t)}
	address, _ := serve(t, config)
	_, err := Connect(within(t), address, LinkConfig{TLS: of(trust)})
	if text := fmt.Sprint(err); err == nil || len(text) > 500 || !strings.Contains(text, "URI") {
		t.Errorf("a client's error has %d bytes: %.300s", len(text), text)
	}
	config, trust = withTLS(t, ServerConfig{})
	var log lineLog
	config.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	inner := config.TLS.GetConfigForClient
	config.TLS.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		asks, err := inner(hello)
		asks = asks.Clone()
		asks.ClientAuth = tls.RequestClientCert
		return asks, err
	}
	address, _ = serve(t, config)
	mine, client := hostile(t), trusting(t, trust)
	client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &mine, nil }
	conn := must.Get(tls.Dial("tcp", address, client))(t)
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a hostile certificate is taken")
	}
	text := log.String()
	for deadline := time.Now().Add(patience); !strings.Contains(text, "link ended") && time.Now().Before(deadline); text = log.String() {
		runtime.Gosched()
	}
	if len(text) > 5000 || !strings.Contains(text, "TLS handshake failed") || !strings.Contains(text, "URI") {
		t.Errorf("the log has %d bytes: %.300s", len(text), text)
	}
}

// Blanks before the first frame are looked at once, however few bytes each read gives: with TLS, a record
// for each, all that a peer without the password may send took seconds of a processor.
func TestBlanksAreLookedAtOnce(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	peer := pipeEnd(t, theirs)
	l := NewLink(ours, LinkConfig{})
	go func() {
		for range 3 {
			_, _ = peer.Write([]byte(" "))
		}
		_ = peer.Close()
	}()
	if err := l.receive(); err != io.EOF && err != io.ErrClosedPipe || l.receiver.blank != 3 { // a pipe says either
		t.Errorf("%d blanks are known, want 3; error %v", l.receiver.blank, err)
	}
	_ = l.Close()
	if l.receiver.isForeign([]byte("GET")) {
		t.Error("what was seen to be blank is looked at again")
	}
	if !l.receiver.isForeign([]byte("   GET")) {
		t.Error("what comes after it is not looked at")
	}
}

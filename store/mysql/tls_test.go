package mysql_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"jobd/net/cert"
	"jobd/net/cert/certtest"
	"jobd/store/mysql"
	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

// tlsServer is a MariaDB with a certificate for a name, whose account may come with TLS only.
func tlsServer(t *testing.T, authority *certtest.Authority, name string) mysql.Config {
	t.Helper()
	folder := t.TempDir()
	file, key := authority.Issue(t, folder, name)
	for path, mode := range map[string]os.FileMode{filepath.Dir(folder): 0o755, folder: 0o755, file: 0o644, key: 0o644} { // the server has an account of its own
		must.Do(t, os.Chmod(path, mode))
	}
	server := must.Get(dbserver.Start(t.Context(), dbserver.Options{Args: []string{"--ssl-cert=" + file, "--ssl-key=" + key}}))(t)
	t.Cleanup(func() { _ = server.Close() })
	if !server.IsMariaDB() {
		t.Skip("the server's root folder does not have the certificate")
	}
	must.Do(t, server.CreateDatabase(t.Context(), "d", dbserver.JobsTable))
	account := must.Get(server.Limited(t.Context(), "d"))(t)
	must.Get(server.Admin().Exec("ALTER USER ?@'%' REQUIRE SSL; ALTER USER ?@'localhost' REQUIRE SSL", account.User, account.User))(t)
	host, port, _ := net.SplitHostPort(server.Addr())
	number, _ := strconv.Atoi(port)
	return mysql.Config{
		Host: host, Port: number, User: account.User, Password: account.Password, Database: "d", Worker: "w",
		Logger: slog.New(slog.DiscardHandler),
	}
}

func with(trust cert.Trust) func() (*tls.Config, error) {
	return func() (*tls.Config, error) { return trust.Config("127.0.0.1") }
}

// Each connection has TLS, that of the locks and those of claims; and who is not trusted gets nothing.
func TestTLSToTheServer(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	config := tlsServer(t, authority, "127.0.0.1")
	config.TLS = with(cert.Trust{CA: authority.File})
	table := open(t, config)
	must.Do(t, table.Check(t.Context()))
	must.Get(table.Hold(t.Context(), "a name"))(t)
	for name, test := range map[string]struct {
		tls  func() (*tls.Config, error)
		want []string
	}{
		"foreign authority": {with(cert.Trust{CA: certtest.New(t).File}), []string{"unknown authority", "mysql_tls_ca"}},
		"another name":      {with(cert.Trust{CA: authority.File, Name: "db.example"}), []string{"wanted to match db.example", "mysql_tls_name"}},
		"files are gone":    {with(cert.Trust{CA: "/nowhere.pem"}), []string{"/nowhere.pem", "mysql_tls_ca"}},
		"no TLS":            {nil, []string{"Access denied"}},
	} {
		config := config
		config.TLS = test.tls
		findings, err := open(t, config).Findings(t.Context(), nil)
		said := fmt.Sprintf("%+v, error %v", findings, err)
		for _, want := range test.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %s, want %q", name, said, want)
			}
		}
	}
}

// Preferred TLS encrypts, also where nobody vouches for the server.
func TestPreferredTLSOfAServerThatCannotBeVerified(t *testing.T) {
	t.Parallel()
	config := tlsServer(t, certtest.New(t), "127.0.0.1")
	config.TLS, config.PreferTLS = with(cert.Trust{CA: certtest.New(t).File}), true
	must.Do(t, open(t, config).Check(t.Context())) // its account may not come without TLS
}

// A renewed authority is trusted from the next connection on, without a restart.
func TestTLSOfARenewedAuthority(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	config := tlsServer(t, authority, "127.0.0.1")
	trust := cert.Trust{CA: certtest.New(t).File}
	config.TLS = func() (*tls.Config, error) { return trust.Config("127.0.0.1") }
	table := open(t, config)
	if err := table.Check(t.Context()); err == nil {
		t.Fatal("a foreign authority is trusted")
	}
	trust.CA = authority.File
	check.Do(t, table.Check(t.Context()))
}

// A server without TLS, or somebody in between who says so, hears nothing of the password.
func TestTLSThatIsTakenAway(t *testing.T) {
	t.Parallel()
	th := newThief(t)
	table := open(t, mysql.Config{
		Host: "127.0.0.1", User: "jobd", Password: "a secret", Database: "d", Logger: slog.New(slog.DiscardHandler), TLS: with(cert.Trust{}),
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", th.address)
		},
	})
	findings, err := table.Findings(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "TLS requested but server does not support TLS") {
		t.Errorf("findings %v, error %v", findings, err)
	}
	if got := <-th.got; got != "nothing" {
		t.Errorf("the thief read %q", got)
	}
}

// thief is who stands between a worker and its server: it wants the whole password, and offers a key of
// its own for it.
type thief struct {
	address string
	key     *rsa.PrivateKey
	asked   chan bool   // the worker has asked for the key
	got     chan string // what could be read of the password
	tls     *tls.Config // nil: it has none
	plugin  string      // "": caching_sha2_password
	before  string      // the byte before that, which the driver does not look at; "": as servers have it
}

// scramble is what the thief lets the password be mixed with.
const scramble = "abcdefghijklmnopqrst"

func newThief(t *testing.T, as ...func(*thief)) *thief {
	t.Helper()
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	th := &thief{listener.Addr().String(), key, make(chan bool, 10), make(chan string, 10), nil, "", ""}
	for _, set := range as {
		set(th)
	}
	go func() {
		for c, err := listener.Accept(); err == nil; c, err = listener.Accept() {
			th.meet(c)
			c.Close()
		}
	}()
	return th
}

// keyFile is a file with the public half of its key.
func (th *thief) keyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.pem")
	must.Do(t, os.WriteFile(path, th.public(), 0o600))
	return path
}

func (th *thief) public() []byte {
	der, err := x509.MarshalPKIXPublicKey(&th.key.PublicKey)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func (th *thief) meet(c net.Conn) {
	number := byte(0)
	send := func(body []byte) {
		_, _ = c.Write(append([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), number}, body...))
	}
	receive := func() []byte {
		head := make([]byte, 4)
		if _, err := io.ReadFull(c, head); err != nil {
			return nil
		}
		body := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
		_, _ = io.ReadFull(c, body)
		number = head[3] + 1
		return body
	}
	hello := append([]byte{10}, "8.0.36\x00\x01\x00\x00\x00"+scramble[:8]+"\x00"...)
	flags := byte(0xf7) // no TLS
	if th.tls != nil {
		flags = 0xff
	}
	hello = append(hello, 0xff, flags, 45, 2, 0, 0xff, 0x81, byte(len(scramble)+1))
	hello = append(hello, make([]byte, 10)...)
	send(append(hello, scramble[8:]+cmp.Or(th.before, "\x00")+cmp.Or(th.plugin, "caching_sha2_password")+"\x00"...))
	said := receive()
	if said == nil {
		th.got <- "nothing"
		return
	}
	if th.tls != nil {
		c = tls.Server(c, th.tls)
		if said = receive(); said == nil {
			th.got <- "nothing"
			return
		}
	}
	if bytes.Contains(said, []byte("a secret")) {
		th.got <- "a secret, at once"
		return
	}
	send([]byte{1, 4}) // the whole password, please
	if said = receive(); bytes.Contains(said, []byte("a secret")) {
		th.got <- "a secret, in clear"
		return
	}
	th.asked <- bytes.Equal(said, []byte{2})
	if bytes.Equal(said, []byte{2}) {
		send(append([]byte{1}, th.public()...))
		said = receive()
	}
	plain, err := rsa.DecryptOAEP(sha1.New(), nil, th.key, said, nil)
	for i := range plain {
		plain[i] ^= scramble[i%len(scramble)]
	}
	if err != nil {
		plain = nil
	}
	th.got <- strings.TrimRight(string(plain), "\x00")
	send(append([]byte{0xff, 0x15, 0x04}, "#28000Access denied for user 'jobd'@'10.0.0.7' (using password: YES)"...))
}

// A server that is not on this host could ask for the password by a key of its own, and read it.
func TestAServerFarAwayDoesNotGetThePassword(t *testing.T) {
	t.Parallel()
	named := newThief(t).keyFile(t)
	for name, test := range map[string]struct {
		host  string
		key   string
		asked bool
		got   string
		said  string // beside the server's own words
	}{
		"far away":                                 {"db.example", "", false, "", "name that in mysql_server_public_key"},
		"an address far away":                      {"10.0.0.9", "", false, "", "name that in mysql_server_public_key"},
		"far away, by its own key":                 {"db.example", named, false, "", "(mysql_user)"},
		"on this host, where nobody is in between": {"127.0.0.1", "", true, "a secret", "(mysql_user)"},
		"on this host, by its own key":             {"localhost", named, false, "", "(mysql_user)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newThief(t)
			table := open(t, mysql.Config{
				Host: test.host, Port: 3306, User: "jobd", Password: "a secret", Database: "d", ServerKey: test.key, Logger: slog.New(slog.DiscardHandler),
				Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "tcp", th.address)
				},
			})
			err := table.Check(t.Context())
			if asked, got := <-th.asked, <-th.got; asked != test.asked || got != test.got {
				t.Errorf("the key was asked for: %t, and the password read as %q", asked, got)
			}
			if err == nil || !strings.Contains(err.Error(), "Access denied") || !strings.Contains(err.Error(), test.said) {
				t.Errorf("%v\ndoes not say: %s", err, test.said)
			}
		})
	}
}

// With mysql_tls = preferred a server that nobody vouches for gets an encrypted link, and the password as it would
// without TLS: not in clear, nor by a key of its own. One that is verified gets it.
func TestPreferredTLSGivesNobodyThePassword(t *testing.T) {
	t.Parallel()
	ours, others := certtest.New(t), certtest.New(t)
	serve := func(by *certtest.Authority, names ...string) func(*thief) {
		file, key := by.Issue(t, t.TempDir(), names...)
		pair := must.Get(tls.LoadX509KeyPair(file, key))(t)
		return func(th *thief) { th.tls = &tls.Config{Certificates: []tls.Certificate{pair}} }
	}
	plugin := func(th *thief) { th.plugin = "sha256_password" }
	for name, test := range map[string]struct {
		as   []func(*thief)
		got  string
		said string
	}{
		"verified":                       {[]func(*thief){serve(ours, "db.example")}, "a secret, in clear", ""},
		"of another authority":           {[]func(*thief){serve(others, "db.example")}, "", "mysql_server_public_key"},
		"for another host":               {[]func(*thief){serve(ours, "other.example")}, "", "mysql_server_public_key"},
		"without TLS":                    {nil, "", "mysql_server_public_key"},
		"that asks by another plugin":    {[]func(*thief){serve(others, "db.example"), plugin}, "nothing", "sha256_password"},
		"that hides how it asks":         {[]func(*thief){serve(others, "db.example"), plugin, func(th *thief) { th.before = "x" }}, "nothing", "sha256_password"},
		"without TLS, by another plugin": {[]func(*thief){plugin}, "nothing", "sha256_password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newThief(t, test.as...)
			table := open(t, mysql.Config{
				Host: "db.example", Port: 3306, User: "jobd", Password: "a secret", Database: "d", Logger: slog.New(slog.DiscardHandler), PreferTLS: true,
				TLS: func() (*tls.Config, error) { return cert.Trust{CA: ours.File}.Config("db.example") },
				Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "tcp", th.address)
				},
			})
			err := table.Check(t.Context())
			if got := <-th.got; got != test.got {
				t.Errorf("it got %q, not %q; %v", got, test.got, err)
			}
			if err == nil || !strings.Contains(err.Error(), test.said) {
				t.Errorf("%v\ndoes not say: %s", err, test.said)
			}
		})
	}
}

// The server's own key, named by the configuration, is what the password is encrypted with.
func TestAServerFarAwayGetsThePasswordByItsKey(t *testing.T) {
	t.Parallel()
	th := newThief(t)
	key := th.keyFile(t)
	table := open(t, mysql.Config{
		Host: "db.example", User: "jobd", Password: "a secret", Database: "d", ServerKey: key, Logger: slog.New(slog.DiscardHandler),
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", th.address)
		},
	})
	_ = table.Check(t.Context())
	if asked, got := <-th.asked, <-th.got; asked || got != "a secret" {
		t.Errorf("the key was asked for: %t, and the password read as %q", asked, got)
	}
	for _, wrong := range []string{"", "key", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}))} {
		path := filepath.Join(t.TempDir(), "key")
		must.Do(t, os.WriteFile(path, []byte(wrong), 0o600))
		if _, err := mysql.New(mysql.Config{Host: "db.example", User: "jobd", Database: "d", ServerKey: path}); err == nil || !strings.Contains(err.Error(), "mysql_server_public_key: "+path) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if _, err := mysql.New(mysql.Config{Host: "db.example", User: "jobd", Database: "d", ServerKey: "/nowhere"}); err == nil {
		t.Error("a file that is not there is taken")
	}
}

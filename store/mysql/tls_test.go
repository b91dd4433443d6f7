package mysql_test

import (
	"context"
	"crypto/tls"
	"fmt"
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
		"files are gone":    {with(cert.Trust{CA: "/nowhere.pem"}), []string{"/nowhere.pem", "mend mysql_tls_ca"}},
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
	if err := table.Check(t.Context()); err != nil {
		t.Error(err)
	}
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
	findings, err := table.Inspect(t.Context())
	if err == nil || !strings.Contains(err.Error(), "TLS requested but server does not support TLS") {
		t.Errorf("findings %v, error %v", findings, err)
	}
	select {
	case got := <-th.got:
		if got != "" {
			t.Errorf("the thief read %q", got)
		}
	default:
	}
}

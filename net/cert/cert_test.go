package cert_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"jobd/net/cert"
	"jobd/net/cert/certtest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// shake makes a handshake and tells which certificate the server has shown, by its number.
func shake(t *testing.T, server, client *tls.Config) (number string, err error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	served := make(chan error, 1)
	go func() {
		end := tls.Server(b, server)
		_, err := end.Read(make([]byte, 1)) // also where the server refuses the client's certificate
		served <- err
		b.Close()
	}()
	conn := tls.Client(a, client)
	if err = conn.Handshake(); err == nil {
		number = conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
		go func() { _, _ = conn.Read(make([]byte, 1)) }() // what the server says of the client's certificate
		if _, err := conn.Write([]byte("x")); err != nil {
			return number, errors.Join(err, <-served)
		}
		return number, <-served
	}
	a.Close()
	return number, errors.Join(err, <-served)
}

func configOf(t *testing.T, trust cert.Trust) *tls.Config {
	t.Helper()
	config := must.Get(trust.Config("server.example"))(t)
	return config
}

// A renewed certificate is shown without a restart; one that can't be used is told, and the former one is
// shown until it can.
func TestRenewedCertificate(t *testing.T) {
	t.Parallel()
	authority, folder := certtest.New(t), t.TempDir()
	file, key := authority.Issue(t, folder, "server.example")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		server := must.Get(cert.Server(cert.Files{Cert: file, Key: key}, slog.New(slog.NewTextHandler(&log, nil))))(t)
		client := configOf(t, cert.Trust{CA: authority.File})
		client.Time = time.Now // of the bubble
		look := func() string {
			t.Helper()
			time.Sleep(2 * time.Second)
			number := must.Get(shake(t, server, insecure(client)))(t)
			return number
		}
		first := look()
		check.Equal(t, look(), first, "then …, and nothing has changed")
		authority.Issue(t, folder, "server.example")
		second := look()
		if second == first || !strings.Contains(log.String(), "the changed certificate is used") {
			t.Errorf("%s as before; the log: %s", second, &log)
		}
		log.Reset()
		// It can't be read for a moment, as without the right to read it, and then as it was.
		must.Do(t, os.Rename(file, file+".away"))
		for range 2 {
			if again := look(); again != second || strings.Count(log.String(), "can't be used") != 1 {
				t.Errorf("%s, want %s, for a file that is away; the log: %s", again, second, &log)
			}
		}
		must.Do(t, os.Rename(file+".away", file))
		if again := look(); again != second || strings.Count(log.String(), "can't be used") != 1 {
			t.Errorf("%s, want %s, for a file that is back; the log: %s", again, second, &log)
		}
		log.Reset()
		must.Do(t, os.WriteFile(file, []byte("no certificate"), 0o600))
		for range 3 {
			check.Equal(t, look(), second, "shown was")
		}
		if n := strings.Count(log.String(), "can't be used"); n != 1 || !strings.Contains(log.String(), file) {
			t.Errorf("told %d times: %s", n, &log)
		}
		_, other := authority.Issue(t, t.TempDir(), "server.example")
		content := must.Get(os.ReadFile(other))(t)
		authority.Issue(t, folder, "server.example")
		if err := os.WriteFile(key, content, 0o600); err != nil { // a key that does not fit
			t.Fatal(err)
		}
		if third := look(); third != second || !strings.Contains(log.String(), "private key does not match") {
			t.Errorf("shown was %s; the log: %s", third, &log)
		}
		authority.Issue(t, folder, "server.example")
		if third := look(); third == second {
			t.Error("the mended pair is not used")
		}
	})
}

// insecure looks at no time: that of a bubble is long ago.
func insecure(config *tls.Config) *tls.Config {
	config = config.Clone()
	config.InsecureSkipVerify = true
	return config
}

// Files that can't be used end the start, with their names.
func TestFilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	authority, folder := certtest.New(t), t.TempDir()
	file, key := authority.Issue(t, folder, "server.example")
	_, other := authority.Issue(t, t.TempDir(), "server.example")
	empty := filepath.Join(folder, "empty.pem")
	must.Do(t, os.WriteFile(empty, nil, 0o600))
	pipe := filepath.Join(folder, "pipe.pem")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	for name, test := range map[string]struct {
		files cert.Files
		want  string
	}{
		"no plain file":     {cert.Files{Cert: pipe, Key: key}, pipe + ": it must be a plain file"},
		"no file":           {cert.Files{Cert: "/nowhere.pem", Key: key}, "/nowhere.pem: no such file"},
		"key does not fit":  {cert.Files{Cert: file, Key: other}, "private key does not match"},
		"no certificate":    {cert.Files{Cert: empty, Key: key}, empty},
		"nobody to trust":   {cert.Files{Cert: file, Key: key, ClientCA: empty}, empty + ": it holds no certificate of an authority"},
		"authority missing": {cert.Files{Cert: file, Key: key, ClientCA: "/nowhere.pem"}, "stat /nowhere.pem"},
	} {
		if _, err := cert.Server(test.files, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
	for name, trust := range map[string]cert.Trust{
		"no authority": {CA: empty}, "no certificate": {Cert: empty, Key: key}, "certificate without key": {Cert: file},
	} {
		if _, err := trust.Config("server.example"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What clients that verify will mind is told, and keeps no server from its start.
func TestDoubtfulCertificates(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	for want, test := range map[string]struct {
		end   time.Time
		names []string
	}{
		"":                       {time.Now().Add(time.Hour), []string{"server.example"}},
		"it has expired":         {time.Now().Add(-time.Minute), []string{"server.example"}},
		"no name and no address": {time.Now().Add(time.Hour), nil},
	} {
		file, key := authority.IssueUntil(t, t.TempDir(), test.end, test.names...)
		var log bytes.Buffer
		_, err := cert.Server(cert.Files{Cert: file, Key: key}, slog.New(slog.NewTextHandler(&log, nil)))
		doubts, alike := cert.Files{Cert: file, Key: key}.Check()
		if err != nil || alike != nil || (doubts == "") != (want == "") || !strings.Contains(doubts, want) || !strings.Contains(log.String(), want) {
			t.Errorf("want %q, got %q, errors %v and %v; the log: %s", want, doubts, err, alike, &log)
		}
	}
}

// Where certificates of clients are asked for, one of another authority, or one that has expired, ends the
// handshake; a client without any comes in.
func TestCertificatesOfClients(t *testing.T) {
	t.Parallel()
	authority, folder := certtest.New(t), t.TempDir()
	file, key := authority.Issue(t, folder, "server.example")
	server := must.Get(cert.Server(cert.Files{Cert: file, Key: key, ClientCA: authority.File}, slog.New(slog.DiscardHandler)))(t)
	known, knownKey := authority.Issue(t, t.TempDir(), "node-7.example")
	foreign, foreignKey := certtest.New(t).Issue(t, t.TempDir(), "node-7.example")
	expired, expiredKey := authority.IssueUntil(t, t.TempDir(), time.Now().Add(-time.Minute), "node-7.example")
	for name, test := range map[string]struct {
		cert, key string
		want      string // "": let in
	}{
		"none":    {},
		"known":   {known, knownKey, ""},
		"foreign": {foreign, foreignKey, "unknown authority"},
		"expired": {expired, expiredKey, "expired"},
	} {
		config := configOf(t, cert.Trust{CA: authority.File, Cert: test.cert, Key: test.key})
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // also one that was not asked for
			if len(config.Certificates) == 0 {
				return &tls.Certificate{}, nil
			}
			return &config.Certificates[0], nil
		}
		_, err := shake(t, server, config)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

// A daemon shows its own certificate where one of its authority is asked for, as long as that lets it in: one that
// has expired, is for servers only or can't be read is kept back, and the daemon may have another credential.
func TestADaemonsOwnCertificate(t *testing.T) {
	t.Parallel()
	authority, folder := certtest.New(t), t.TempDir()
	file, key := authority.Issue(t, folder, "server.example")
	server := must.Get(cert.Server(cert.Files{Cert: file, Key: key, ClientCA: authority.File}, slog.New(slog.DiscardHandler)))(t)
	pairOf := func(file, key string) cert.Files { return cert.Files{Cert: file, Key: key} }
	for name, test := range map[string]struct {
		own    cert.Files
		shown  bool
		unused string // why
	}{
		"known":            {pairOf(authority.Issue(t, t.TempDir(), "node-7.example")), true, ""},
		"expired":          {pairOf(authority.IssueUntil(t, t.TempDir(), time.Now().Add(-time.Minute), "node-7.example")), false, "it has expired"},
		"for servers only": {pairOf(authority.IssueForServers(t, t.TempDir(), "node-7.example")), false, "is for servers only"},
		"another's key":    {cert.Files{Cert: file, Key: authority.File}, false, "private key"},
		"gone":             {cert.Files{Cert: "/nowhere.pem", Key: key}, false, "no such file"},
	} {
		shown, seen := 0, must.Get(server.GetConfigForClient(nil))(t).Clone()
		seen.VerifyConnection = func(s tls.ConnectionState) error {
			shown = len(s.PeerCertificates)
			return nil
		}
		if _, err := shake(t, seen, configOf(t, cert.Trust{CA: authority.File, Own: test.own})); err != nil || (shown > 0) != test.shown {
			t.Errorf("%s: %d certificates were shown, error %v", name, shown, err)
		}
		if _, err := test.own.Usable(); (err == nil) != (test.unused == "") || err != nil && !strings.Contains(err.Error(), test.unused) {
			t.Errorf("%s: %v, want %q", name, err, test.unused)
		}
	}
}

// A server whose certificate is not for the host that was called, has expired, or is of an authority that
// nobody knows, is not trusted.
func TestServersThatAreNotTrusted(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	serverOf := func(file, key string) *tls.Config {
		server := must.Get(cert.Server(cert.Files{Cert: file, Key: key}, slog.New(slog.DiscardHandler)))(t)
		return server
	}
	ours := cert.Trust{CA: authority.File}
	for name, test := range map[string]struct {
		server *tls.Config
		trust  cert.Trust
		want   string
	}{
		"right":             {serverOf(authority.Issue(t, t.TempDir(), "server.example")), ours, ""},
		"of another host":   {serverOf(authority.Issue(t, t.TempDir(), "other.example")), ours, "not server.example"},
		"by its other name": {serverOf(authority.Issue(t, t.TempDir(), "other.example")), cert.Trust{CA: authority.File, Name: "other.example"}, ""},
		"expired":           {serverOf(authority.IssueUntil(t, t.TempDir(), time.Now().Add(-time.Minute), "server.example")), ours, "expired"},
		"foreign":           {serverOf(certtest.New(t).Issue(t, t.TempDir(), "server.example")), ours, "unknown authority"},
		"system's trust":    {serverOf(authority.Issue(t, t.TempDir(), "server.example")), cert.Trust{}, "unknown authority"},
	} {
		_, err := shake(t, test.server, configOf(t, test.trust))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

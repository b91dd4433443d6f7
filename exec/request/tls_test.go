package request

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/net/cert/certtest"
	"jobd/store/storetest/must"
)

// certificate is one for a host that is good until a time, and who has signed it.
func certificate(t *testing.T, host string, until time.Time) (served tls.Certificate, roots *x509.CertPool) {
	t.Helper()
	authority := certtest.New(t)
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(must.Get(os.ReadFile(authority.File))(t))
	return must.Get(tls.LoadX509KeyPair(authority.IssueUntil(t, t.TempDir(), until, host)))(t), roots
}

// secured serves over TLS, and gives the URL.
func secured(t *testing.T, c tls.Certificate, versions ...uint16) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(claimHeader, r.Header.Get(claimHeader))
		fmt.Fprint(w, r.Proto)
	}))
	server.Config.ErrorLog = quiet
	server.TLS = &tls.Config{Certificates: []tls.Certificate{c}, NextProtos: []string{"h2", "http/1.1"}}
	if len(versions) > 0 {
		server.TLS.MaxVersion = versions[0]
		server.TLS.MinVersion = versions[0]
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

func trusting(t *testing.T, url string, roots *x509.CertPool) (*fixture, jobexec.Spec) {
	t.Helper()
	f := newFixture(t)
	f.config.roots = roots
	of := jobexec.Service{Mode: jobexec.ModeHTTP, URL: url}
	f.SetServices(map[string]jobexec.Service{"mail": of})
	return f, specOf(of)
}

func TestARequestOverTLS(t *testing.T) {
	t.Parallel()
	good, roots := certificate(t, "127.0.0.1", time.Now().Add(24*time.Hour))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		url := secured(t, good, version)
		f, spec := trusting(t, url+"/run/{id}", roots)
		for range 20 {
			p := f.sent(spec)
			done, err := f.outcome(p)
			if err != nil || string(done.Stdout.Kept) != "HTTP/1.1" || p.Started().Address != strings.TrimPrefix(url, "https://") {
				t.Fatalf("%s: it ended as %+v, %v", tls.VersionName(version), done, err)
			}
		}
		if st := f.standing(); st.Boots > 15 {
			t.Errorf("%s: its connections are not used again: %+v", tls.VersionName(version), st)
		}
	}
}

// A server that can't prove its identity gets nothing: the job is not started, and its target is unable.
func TestAWrongCertificateIsNoStart(t *testing.T) {
	t.Parallel()
	good, roots := certificate(t, "127.0.0.1", time.Now().Add(24*time.Hour))
	expired, expiredRoots := certificate(t, "127.0.0.1", time.Now().Add(-time.Hour))
	other, otherRoots := certificate(t, "other.example", time.Now().Add(24*time.Hour))
	plain := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it got a request") })
	silenced := raw(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	cases := map[string]struct {
		url   string
		roots *x509.CertPool
		want  string
	}{
		"of nobody who is trusted": {secured(t, good), nil, "x509: "},
		"of somebody else":         {secured(t, good), otherRoots, "certificate signed by unknown authority"},
		"expired":                  {secured(t, expired), expiredRoots, "certificate has expired or is not yet valid"},
		"for another host":         {secured(t, other), otherRoots, "doesn't contain any IP SANs"},
		"an old version":           {secured(t, good, tls.VersionTLS11), roots, "protocol version"},
		"no TLS":                   {"https" + strings.TrimPrefix(plain, "http"), roots, "does not look like a TLS handshake"},
		"no word":                  {"https" + strings.TrimPrefix(silenced, "http"), roots, "deadline exceeded"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.config.roots = c.roots
			of := jobexec.Service{Mode: jobexec.ModeHTTP, URL: c.url}
			if name == "no word" {
				of.Dial = 50 * time.Millisecond
			}
			f.SetServices(map[string]jobexec.Service{"mail": of})
			s := f.next(false)
			if !strings.Contains(s.Unready, "TLS: ") || !strings.Contains(s.Unready, c.want) {
				t.Errorf("its standing is %+v", s)
			}
			if done, err := f.run(specOf(of)); refused(err) == nil || refused(err).Short {
				t.Errorf("a job ended as %+v, %v", done, err)
			}
		})
	}
}

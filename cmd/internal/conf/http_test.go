package conf

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"jobd/store/storetest/must"
)

// An address names its host, so that nobody listens on all addresses by leaving something out.
func TestHTTPAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]HTTP{
		"":                   {},
		"127.0.0.1:9180":     {Network: "tcp", Address: "127.0.0.1:9180"},
		"localhost:0":        {Network: "tcp", Address: "localhost:0"},
		"[::1]:9180":         {Network: "tcp", Address: "[::1]:9180"},
		"0.0.0.0:80":         {Network: "tcp", Address: "0.0.0.0:80"},
		"/run/jobd/web.sock": {Network: "unix", Address: "/run/jobd/web.sock"},
	} {
		var got HTTP
		if err := got.Decode(text); err != nil || !reflect.DeepEqual(got, want) || got.On() != (text != "") {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		":9180", "9180", "*:9180", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536", "::1:9180x", "web.sock",
		"http://127.0.0.1:9180", "127.0.0.1:9180/metrics", "a b:1", "/" + strings.Repeat("x", longestSocket),
	} {
		var got HTTP
		if err := got.Decode(text); err != errHTTP || got.On() {
			t.Errorf("%q was taken: %+v, %v", text, got, err)
		}
	}
}

// Where the daemon itself listens there is no room for another listener.
func TestHTTPBesideTheDaemonsOwnAddress(t *testing.T) {
	t.Parallel()
	for text, test := range map[string]struct {
		host string
		port int
		same bool
	}{
		"127.0.0.1:9180":     {"127.0.0.1", 9180, true},
		"[::]:9180":          {"::", 9180, true},
		"node-1:9180":        {"node-1", 9180, true},
		"127.0.0.1:9181":     {"127.0.0.1", 9180, false},
		"127.0.0.2:9180":     {"127.0.0.1", 9180, false},
		"127.0.0.1:0":        {"127.0.0.1", 0, false},
		"/run/jobd/web.sock": {"127.0.0.1", 9180, false},
	} {
		var h HTTP
		set := New(Program{})
		h.Register(set)
		must.Do(t, h.Decode(text))
		h.Validate(set, &Listen{Host: test.host, Port: test.port})
		if same := set.Err() != nil; same != test.same {
			t.Errorf("http_listen %s, host %s: %v", text, test.host, set.Err())
		}
	}
}

// Whom a daemon believes over HTTP: what says nothing by itself is refused, and what would be read on the way is told.
func TestWhoIsBelievedOverHTTP(t *testing.T) {
	t.Parallel()
	const beyond, secret = "--http-listen=10.0.0.1:9180 ", "--principals-file=/p "
	const tls = "--tls-cert=/c --tls-key=/k --tls-client-ca=/a "
	for args, want := range map[string]struct{ bad, warning string }{
		"--http-client-cert":                                                         {bad: "http_client_cert: it has no effect without tls_client_ca and principals_file"},
		"--http-client-cert " + tls:                                                  {bad: "http_client_cert: it has no effect without tls_client_ca and principals_file"},
		"--http-client-cert " + secret + tls:                                         {},
		"--http-user-header=X-Forwarded-User " + secret:                              {bad: "http_user_header: it has no effect without http_proxy"},
		"--http-user-header=X-Forwarded-User --http-proxy=uid:0":                     {bad: "http_user_header: it has no effect without http_proxy and principals_file"},
		"--http-user-header=X-Forwarded-User --http-proxy=uid:0 " + secret:           {},
		"--http-user-header=X-Forwarded-User --http-proxy=cert:p.example " + secret:  {bad: "http_proxy: it has no effect without tls_client_ca"},
		"--http-user-header=Remote-User --http-proxy=cert:p.example " + secret + tls: {},
		"--http-proxy=uid:0 " + secret:                                               {bad: "http_proxy: it has no effect without http_user_header"},
		"--http-proxy=nginx " + secret:                                               {bad: "uid:ACCOUNT, for a proxy on a unix socket"},
		"--http-proxy=uid:no-such-account " + secret:                                 {bad: "an account of this host"},
		"--http-proxy=cert:*.example " + secret:                                      {bad: "a DNS name of its certificate"},
		"--http-user-header=X_User " + secret:                                        {bad: "the name of a header"},
		"--http-user-header=authorization " + secret:                                 {bad: "the name of a header"},
		"--http-hosts=jobs.example,jobs":                                             {},
		"--http-hosts=jobs.example,,jobs":                                            {bad: "http_hosts"},
		beyond:                                                                       {warning: "numbers need no password"},
		beyond + "--password=0123456789abcdef":                                       {warning: "people may sign in without TLS"},
		beyond + secret:                                                              {warning: "people may sign in without TLS"},
		beyond + secret + tls:                                                        {warning: "people may sign in without TLS"},
		beyond + secret + tls + "--tls=require":                                      {},
		"--http-listen=127.0.0.1:9180 " + secret:                                     {},
		"--http-listen=/run/s " + secret:                                             {},
	} {
		set := New(Program{})
		var l Listen
		var h HTTP
		l.Register(set)
		h.Register(set)
		must.Do(t, set.Parse(append(strings.Fields(args), "--host=127.0.0.1", "--port=1"), nil, io.Discard))
		l.Validate(set)
		h.Validate(set, &l)
		if err := set.Err(); (want.bad == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want.bad) {
			t.Errorf("%s: %v, want %q", args, err, want.bad)
		}
		if warnings := strings.Join(set.Warnings(), "; "); (want.warning == "") != (warnings == "") && want.bad == "" || !strings.Contains(warnings, want.warning) {
			t.Errorf("%s: warnings %q, want %q", args, warnings, want.warning)
		}
	}
}

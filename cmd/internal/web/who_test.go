package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/conf"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/cert"
	"jobd/net/cert/certtest"
	"jobd/net/principal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// people is a file of principals under test.
type people struct {
	t      *testing.T
	path   string
	keeper *principal.Keeper
}

func newPeople(t *testing.T, lines ...string) *people {
	t.Helper()
	p := &people{t: t, path: filepath.Join(t.TempDir(), "principals")}
	p.write(lines...)
	p.keeper = must.Get(principal.Open(p.path, slog.New(slog.DiscardHandler)))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); p.keeper.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return p
}

func (p *people) write(lines ...string) {
	p.t.Helper()
	must.Do(p.t, os.WriteFile(p.path+".new", []byte("# principals\n"+strings.Join(lines, "\n")+"\n"), 0o600))
	must.Do(p.t, os.Rename(p.path+".new", p.path))
}

func (p *people) who(password string) Who {
	return Who{Principals: true, Password: password != "", Server: jobnet.NewServer(jobnet.ServerConfig{Principals: p.keeper, Password: password})}
}

// tokenOf makes somebody's token and line.
func tokenOf(t *testing.T, begins string) (token, line string) {
	t.Helper()
	token, credential, err := principal.NewToken(strings.Fields(begins)[0])
	must.Do(t, err)
	return token, begins + " " + credential
}

// send sends a request and gives its answer, which redirects lead nowhere else.
func send(t *testing.T, client *http.Client, method, address string, form url.Values, header ...string) (*http.Response, string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode())))(t)
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Add(name, value)
	}
	mine := *client
	mine.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer := must.Get(mine.Do(request))(t)
	defer answer.Body.Close()
	return answer, string(must.Get(io.ReadAll(answer.Body))(t))
}

// over is a client by a unix socket.
func over(t *testing.T, path string) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Who asks is settled in one order, and nobody is taken for somebody by what a proxy passes on.
func TestWhoAsks(t *testing.T) {
	t.Parallel()
	ann, line := tokenOf(t, "ann admin *")
	me := fmt.Sprint("me read * uid:", os.Getuid())
	p := newPeople(t, line, me, "here status * localhost", "bob run mail proxy:bob@example.com")
	const html = "Accept: text/html,*/*"
	serve := func(at conf.HTTP, who Who) string { return serveTo(t, at, routes(), who).address() }
	tcp := "http://" + serve(anyPort, p.who(""))
	nobody := "http://" + serve(anyPort, newPeople(t, line).who("the password of all of them"))
	open := "http://" + serve(anyPort, nobodysOwn)
	onSocket := serve(conf.HTTP{Network: "unix", Address: filepath.Join(t.TempDir(), "s")}, p.who(""))
	proxied := serve(conf.HTTP{
		Network: "unix", Address: filepath.Join(t.TempDir(), "s"), UserHeader: "x-forwarded-user", Proxies: []string{fmt.Sprint("uid:", os.Getuid())},
	}, p.who(""))
	for name, test := range map[string]struct {
		socket, address string
		header          []string
		code            int
		says            string
	}{
		"a token":                             {"", tcp, []string{"Authorization: Bearer " + ann}, 200, "asked by ann (token, 127.0.0.1:"},
		"in other letters":                    {"", tcp, []string{"Authorization: bEARER  " + ann}, 200, "asked by ann ("},
		"a wrong one, from this host":         {"", tcp, []string{"Authorization: Bearer jobd"}, 401, "the request has no valid credential"},
		"an empty one":                        {"", tcp, []string{"Authorization: Bearer  "}, 200, "asked by here (localhost, "}, // the header ends with the scheme
		"two of them":                         {"", tcp, []string{"Authorization: Bearer " + ann, "Authorization: Bearer " + ann}, 401, "the request has no valid credential"},
		"a scheme of a proxy":                 {"", tcp, []string{"Authorization: Basic YTpi"}, 200, "asked by here ("},
		"this host":                           {"", tcp, nil, 200, "asked by here (localhost, 127.0.0.1:"},
		"a cookie that is none":               {"", tcp, []string{"Cookie: jobd_0=x"}, 200, "asked by here"},
		"through a proxy":                     {"", tcp, []string{"X-Forwarded-For: 192.0.2.1"}, 401, "the request has no valid credential"},
		"through another":                     {"", tcp, []string{"Forwarded: for=192.0.2.1"}, 401, "the request has no valid credential"},
		"with a name, through any proxy":      {"", tcp, []string{"X-Forwarded-User: bob@example.com"}, 401, "the request has no valid credential"},
		"through Via":                         {"", tcp, []string{"Via: 1.1 x"}, 401, "the request has no valid credential"},
		"through X-Real-IP":                   {"", tcp, []string{"X-Real-IP: 127.0.0.1"}, 401, "the request has no valid credential"},
		"a token through a proxy":             {"", tcp, []string{"Via: 1.1 x", "Authorization: Bearer " + ann}, 200, "asked by ann (token"},
		"an account":                          {onSocket, "http://jobd", nil, 200, "asked by me (uid, uid "},
		"an account that passes on":           {onSocket, "http://jobd", []string{"Via: 1.1 x"}, 401, "the request has no valid credential"},
		"a proxy that is believed":            {proxied, "http://jobd", []string{"X-Forwarded-User: bob@example.com"}, 200, "asked by bob (proxy, uid "},
		"of somebody unknown":                 {proxied, "http://jobd", []string{"X-Forwarded-User: eve@example.com"}, 401, "the request has no valid credential"},
		"of nobody":                           {proxied, "http://jobd", nil, 401, "the request has no valid credential"},
		"of an empty name":                    {proxied, "http://jobd", []string{"X-Forwarded-User: "}, 401, "the request has no valid credential"},
		"of two":                              {proxied, "http://jobd", []string{"X-Forwarded-User: bob@example.com", "X-Forwarded-User: bob@example.com"}, 401, "the request has no valid credential"},
		"of two in one":                       {proxied, "http://jobd", []string{"X-Forwarded-User: bob@example.com, bob@example.com"}, 401, "the request has no valid credential"},
		"nobody":                              {"", nobody, nil, 401, "send Authorization: Bearer"},
		"nobody in a browser":                 {"", nobody, []string{html}, 401, `<form method="post" action="/sign-in">`},
		"the password":                        {"", nobody, []string{"Authorization: Bearer the password of all of them"}, 200, "asked by password (127."},
		"a browser with a wrong token":        {"", nobody, []string{html, "Authorization: Bearer x"}, 401, "the request has no valid credential"},
		"a daemon without principals":         {"", open, nil, 200, "asked by 127.0.0.1:"},
		"a daemon without, through a proxy":   {"", open, []string{"X-Forwarded-For: 192.0.2.1"}, 404, "set principals_file or password"},
		"a daemon without, some secret":       {"", open, []string{"Authorization: Bearer x"}, 401, "the request has no valid credential"},
		"a daemon without, beyond, a browser": {"", open, []string{"Via: 1.1 x", html}, 404, "set principals_file or password"},
	} {
		client := http.DefaultClient
		if test.socket != "" {
			client = over(t, test.socket)
		}
		answer, body := send(t, client, http.MethodGet, test.address+"/", nil, test.header...)
		if answer.StatusCode != test.code || !strings.Contains(body, test.says) || (test.code == 401) != (answer.Header.Get("WWW-Authenticate") == "Bearer") {
			t.Errorf("%s: %s, want %d; %q, want %q", name, answer.Status, test.code, body, test.says)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			check.Equal(t, answer.Header.Get(name), want, "%s", name)
		}
	}
}

// Numbers, and why a daemon is not well, are told to this host, and to others where they may see the numbers of
// all targets; without principals to everybody.
func TestWhoMayWatch(t *testing.T) {
	t.Parallel()
	all, line := tokenOf(t, "all status *")
	some, other := tokenOf(t, "some admin mail")
	submits, third := tokenOf(t, "submits submit *")
	ill := routes(api.NotReady{What: "database", Why: "secret.example is away"})
	with := "http://" + serveTo(t, anyPort, ill, newPeople(t, line, other, third).who("")).address()
	without := "http://" + serveTo(t, anyPort, ill, Who{Password: true, Server: jobnet.NewServer(jobnet.ServerConfig{Password: "x"})}).address()
	for _, test := range []struct {
		address string
		header  []string
		may     bool
	}{
		{with, nil, true},
		{with, []string{"Via: 1.1 x"}, false},
		{with, []string{"Via: 1.1 x", "Authorization: Bearer x"}, false},
		{with, []string{"Via: 1.1 x", "Authorization: Bearer " + some}, false},
		{with, []string{"Via: 1.1 x", "Authorization: Bearer " + submits}, false},
		{with, []string{"Via: 1.1 x", "Authorization: Bearer " + all}, true},
		{without, []string{"Via: 1.1 x"}, true},
	} {
		if answer, body := send(t, http.DefaultClient, http.MethodGet, test.address+"/metrics", nil, test.header...); (answer.StatusCode == 200) != test.may || (body == "number 1\n") != test.may {
			t.Errorf("/metrics for %s: %s %q", test.header, answer.Status, body)
		}
		for _, path := range []string{"/healthz", "/readyz", "/readyz?format=json"} {
			answer, body := send(t, http.DefaultClient, http.MethodGet, test.address+path, nil, test.header...)
			if answer.StatusCode != 503 || strings.Contains(body, "secret.example") != test.may {
				t.Errorf("%s for %s: %s %q", path, test.header, answer.Status, body)
			}
		}
	}
}

// A page of another server changes nothing here, whoever's browser it is in; nor does what says nothing of where
// it comes from, without a secret that no browser adds.
func TestWhatMayChangeSomething(t *testing.T) {
	t.Parallel()
	ann, line := tokenOf(t, "ann admin *")
	p := newPeople(t, line, "here admin * localhost")
	done := routes()
	done.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "done for ", r.PostFormValue("what")) })
	address := "http://" + serveTo(t, anyPort, done, p.who("")).address()
	only := anyPort
	only.ReadOnly = true
	reads := "http://" + serveTo(t, only, done, p.who("")).address()
	form := url.Values{"what": {"it"}}
	for name, test := range map[string]struct {
		address, method string
		header          []string
		code            int
	}{
		"a page of ours":               {address, "POST", []string{"Sec-Fetch-Site: same-origin"}, 200},
		"of ours, an older browser":    {address, "POST", []string{"Origin: " + address}, 200},
		"a page elsewhere":             {address, "POST", []string{"Sec-Fetch-Site: cross-site"}, 403},
		"another port of this host":    {address, "POST", []string{"Sec-Fetch-Site: same-site", "Origin: http://127.0.0.1:1"}, 403},
		"elsewhere, an older browser":  {address, "POST", []string{"Origin: http://evil.example"}, 403},
		"a page of nowhere":            {address, "POST", []string{"Origin: null"}, 403},
		"elsewhere, with a token":      {address, "POST", []string{"Sec-Fetch-Site: cross-site", "Authorization: Bearer " + ann}, 403},
		"a program without a token":    {address, "POST", nil, 403},
		"a program with a wrong one":   {address, "POST", []string{"Authorization: Bearer x"}, 403},
		"a program":                    {address, "POST", []string{"Authorization: Bearer " + ann}, 200},
		"another method":               {address, "PUT", []string{"Authorization: Bearer " + ann}, 405},
		"read only":                    {reads, "POST", []string{"Sec-Fetch-Site: same-origin"}, 403},
		"read only, a program":         {reads, "POST", []string{"Authorization: Bearer " + ann}, 403},
		"read only, a look":            {reads, "GET", nil, 200},
		"a page elsewhere that links":  {address, "GET", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"}, 200},
		"elsewhere, in a frame":        {address, "GET", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 403},
		"elsewhere, a part of it":      {address, "GET", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"}, 403},
		"another port, a stream":       {address, "GET", []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors"}, 403},
		"a stream of ours":             {address, "GET", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors"}, 200},
		"sign-out by a page elsewhere": {address + "/sign-out", "POST", []string{"Sec-Fetch-Site: cross-site"}, 403},
		"sign-in by a page elsewhere":  {address + "/sign-in", "POST", []string{"Origin: http://evil.example"}, 403},
		"sign-out where one reads":     {reads + "/sign-out", "POST", []string{"Sec-Fetch-Site: same-origin"}, 303},
	} {
		var sent url.Values
		if test.method != "GET" {
			sent = form
		}
		answer, body := send(t, http.DefaultClient, test.method, test.address, sent, test.header...)
		if answer.StatusCode != test.code || strings.Contains(body, "done for it") != (test.code == 200 && test.method == "POST") {
			t.Errorf("%s: %s %q, want %d", name, answer.Status, body, test.code)
		}
	}
	if answer, body := send(t, http.DefaultClient, "POST", address, url.Values{"what": {strings.Repeat("x", mostForm)}}, "Sec-Fetch-Site: same-origin"); answer.StatusCode != 400 {
		t.Errorf("a form that is too long: %s %q", answer.Status, body)
	}
}

// TLS and plain HTTP come to one port, unless TLS is required. A certificate counts where it is to, and is asked
// for nowhere else.
func TestTLSOnTheSamePort(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	file, key := authority.Issue(t, t.TempDir(), "127.0.0.1")
	server := must.Get(cert.Server(cert.Files{Cert: file, Key: key, ClientCA: authority.File}, slog.New(slog.DiscardHandler)))(t)
	ann, line := tokenOf(t, "ann admin *")
	who := newPeople(t, line, "node read * cert:node.example", "here status * localhost", "bob run * proxy:bob").who("")
	who.TLS = server
	both, asking, proxied, required := anyPort, anyPort, anyPort, who
	proxied.UserHeader, proxied.Proxies = "Remote-User", []string{"cert:node.example"}
	asking.ClientCert, required.RequireTLS = true, true
	addresses := map[string]string{
		"both": serveTo(t, both, routes(), who).address(), "asking": serveTo(t, asking, routes(), who).address(), "required": serveTo(t, both, routes(), required).address(),
		"proxied": serveTo(t, proxied, routes(), who).address(),
	}
	asked := false
	config := &tls.Config{RootCAs: x509.NewCertPool(), GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		pair, err := tls.LoadX509KeyPair(authority.Issue(t, t.TempDir(), "node.example"))
		return &pair, err
	}}
	config.RootCAs.AppendCertsFromPEM(must.Get(os.ReadFile(authority.File))(t))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	for _, test := range []struct {
		scheme, server string
		code           int
		says           string
		asked          bool
	}{
		{"http", "both", 200, "asked by here", false},
		{"https", "both", 200, "asked by here", false},
		{"http", "asking", 200, "asked by here", false},
		{"https", "asking", 200, "asked by node (certificate", true},
		{"https", "required", 200, "asked by here", false},
		{"http", "required", 400, "TLS is required here", false},
		{"https", "proxied", 200, "asked by bob (proxy, 127.0.0.1:", true},
		{"http", "proxied", 401, "the request has no valid credential", false},
	} {
		asked = false
		header := []string{}
		if test.server == "proxied" {
			header = []string{"Remote-User: bob", "Via: 1.1 x"}
		}
		answer, body := send(t, client, http.MethodGet, test.scheme+"://"+addresses[test.server]+"/", nil, header...)
		if answer.StatusCode != test.code || !strings.Contains(body, test.says) || asked != test.asked {
			t.Errorf("%s at %s: %s %q, a certificate was asked for: %t", test.scheme, test.server, answer.Status, body, asked)
		}
	}
	for name, address := range addresses {
		report := must.Get(askReport(t.Context(), conf.HTTP{Network: "tcp", Address: address}))(t)
		check.Equal(t, report.Program, "jobd", "asked by another start at %s: %+v", name, report)
	}
	answer, _ := send(t, client, http.MethodPost, "https://"+addresses["both"]+"/sign-in", url.Values{"credential": {ann}}, "Sec-Fetch-Site: same-origin")
	cookies := answer.Cookies()
	if len(cookies) != 1 || !cookies[0].Secure || !strings.HasPrefix(cookies[0].Name, "__Host-jobd_") || cookies[0].Path != "/" || cookies[0].Domain != "" {
		t.Fatalf("under TLS: %v", cookies)
	}
	signedIn := "Cookie: " + cookies[0].Name + "=" + cookies[0].Value
	if _, body := send(t, client, http.MethodGet, "https://"+addresses["both"], nil, signedIn); !strings.Contains(body, "asked by ann (token") {
		t.Errorf("signed in: %q", body)
	}
	for _, cookie := range []string{signedIn, "Cookie: " + strings.TrimPrefix(cookies[0].Name, "__Host-") + "=" + cookies[0].Value} {
		if _, body := send(t, client, http.MethodGet, "http://"+addresses["both"], nil, cookie); strings.Contains(body, "ann") {
			t.Errorf("the cookie counts without TLS: %q", body)
		}
	}
}

// A stream is cut by no limit of time, and ends with the credential of who reads it, and with the server. There are so
// many, beside all other answers.
func TestStreams(t *testing.T) {
	t.Parallel()
	token, line := tokenOf(t, "ann read *")
	others, hers := tokenOf(t, "bob read *")
	p := newPeople(t, line, hers)
	told, opened, more := routes(), make(chan error, 1), make(chan string)
	told.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := OpenStream(w, r)
		opened <- err
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer s.Close()
		for {
			select {
			case text := <-more:
				if _, err := fmt.Fprintln(s, text); err != nil {
					t.Error(err)
				}
			case <-s.Done():
				return
			}
		}
	})
	s := must.Get(Listen(anyPort, told, p.who(""), slog.New(slog.DiscardHandler)))(t)
	const limit = 50 * time.Millisecond
	s.server.WriteTimeout, s.server.ReadTimeout = limit, limit
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	defer func() { stop(); must.Do(t, <-ended) }()
	beginAs := func(token string) net.Conn {
		t.Helper()
		conn := must.Get(net.Dial("tcp", s.address()))(t)
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		must.Get(fmt.Fprintf(conn, "GET /live HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token))(t)
		return conn
	}
	begin := func() net.Conn { t.Helper(); return beginAs(token) }
	first := begin()
	must.Do(t, <-opened)
	<-time.After(3 * limit)
	more <- "late news"
	buffer := make([]byte, 4096)
	read := ""
	for !strings.HasSuffix(read, "late news\n") {
		n, err := first.Read(buffer)
		if read += string(buffer[:n]); err != nil {
			t.Fatalf("%q, %v", read, err)
		}
	}
	all := []net.Conn{first}
	for range mostStreams/2 - 1 {
		all = append(all, begin())
		must.Do(t, <-opened)
	}
	begin()
	check.Equal(t, <-opened, errStreams, "more than half for her")
	for range mostStreams / 2 {
		beginAs(others)
		must.Do(t, <-opened)
	}
	refused := begin()
	check.Equal(t, <-opened, errStreams, "one more")
	check.Contains(t, string(must.Get(io.ReadAll(refused))(t)), " 503 ", "one more")
	if code, _ := get(t, s.address(), "/readyz"); code != 200 {
		t.Errorf("beside all streams: %d", code)
	}
	all[1].Close()
	for { // the place of a reader that has gone is free
		again := begin()
		if <-opened == nil {
			break
		}
		_, _ = io.ReadAll(again)
	}
	p.write(hers) // her token is removed
	for _, conn := range all[2:] {
		must.Get(io.Copy(io.Discard, conn))(t)
	}
}

// A server that stops keeps nobody's stream.
func TestAStreamEndsWithTheServer(t *testing.T) {
	t.Parallel()
	told, opened := routes(), make(chan struct{})
	told.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := must.Get(OpenStream(w, r))(t)
		defer s.Close()
		close(opened)
		<-s.Done()
	})
	s := must.Get(Listen(anyPort, told, nobodysOwn, slog.New(slog.DiscardHandler)))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	conn := must.Get(net.Dial("tcp", s.address()))(t)
	defer conn.Close()
	must.Get(io.WriteString(conn, "GET / HTTP/1.0\r\nHost: localhost\r\n\r\n"))(t)
	<-opened
	begun := time.Now()
	stop()
	must.Do(t, <-ended)
	if took := time.Since(begun); took >= stopTimeout {
		t.Errorf("the server has waited for it: %v", took)
	}
}

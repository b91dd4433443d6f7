package request

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func TestASignedRequest(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r })
	f, spec := served(t, url+"/run%2F{id}/x?id={id}")
	const secret = "geheim"
	spec.Service.Secret = secret
	for _, deadline := range []string{"", "1700000000"} {
		spec.Vars = []string{"JOBD_RECOVERED=1"}
		if deadline != "" {
			spec.Vars = append(spec.Vars, "JOBD_DEADLINE="+deadline)
		}
		done := must.Get(f.run(spec))(t)
		must.Equal(t, done.Result, "ok", "it ended as %+v", done)
		r := <-seen
		var unix int64
		var mac string
		if _, err := fmt.Sscanf(r.Header.Get("Jobd-Signature"), "t=%d,v1=%s", &unix, &mac); err != nil {
			t.Fatalf("the signature is %q: %v", r.Header.Get("Jobd-Signature"), err)
		}
		// A receiver has nothing but what it got.
		h := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(h, "%d\n%s\n%s\n%s\n", unix, r.Method, r.Host, r.RequestURI)
		fmt.Fprintf(h, "%s\n%s\n%s\n%s\n%s", r.Header.Get("Jobd-Id"), r.Header.Get("Jobd-Attempt"), r.Header.Get("Jobd-Claim"),
			r.Header.Get("Jobd-Target"), r.Header.Get("Jobd-Deadline"))
		check.Equal(t, mac, fmt.Sprintf("%x", h.Sum(nil)), "the signature is …, of %+v", r)
		if age := time.Since(time.Unix(unix, 0)); age < 0 || age > hung {
			t.Errorf("it is %s old", age)
		}
		if got := r.Header.Get("Jobd-Deadline"); got != deadline || r.RequestURI != "/run%2F7/x?id=7" {
			t.Errorf("the request is %s with deadline %q", r.RequestURI, got)
		}
		if _, told := r.Header["Traceparent"]; told || r.Header.Get("Jobd-Recovered") != "1" {
			t.Errorf("its headers are %v", r.Header)
		}
	}
}

func TestHeadersOfAJob(t *testing.T) {
	t.Parallel()
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	spec := jobexec.Spec{
		Job: -3, Attempt: 1, Token: "@abcdefghi", Target: "grüße 100%\r\nX: y",
		Env: []string{"PATH=/bin", "SECRET=x", "traceparent=nonsense", "TRACEPARENT=" + trace},
		Vars: []string{
			"JOBD_ATTEMPT=9", "JOBD_ID=9", "JOBD_PLANNED=12", "JOBD_=x", "JOBD__X=x", "JOBD_A:B=x", "JOBD_ODD=a\r\nb", "PATH=/x", "JOBD_PLANNED=13",
		},
	}
	var got strings.Builder
	for _, h := range headersOf(&spec, time.Now()) {
		fmt.Fprintf(&got, "%s: %s\n", h.Name, h.Value)
	}
	want := `Jobd-Id: -3
Jobd-Attempt: 1
Jobd-Target: gr%C3%BC%C3%9Fe%20100%25%0D%0AX:%20y
Jobd-Claim: -3-1-@abcdefghi
Jobd-Planned: 12
Jobd-Odd: a%0D%0Ab
traceparent: ` + trace + "\n"
	check.Equal(t, got.String(), want, "its headers are")
	spec.Vars = []string{"JOBD_TRACEPARENT=" + strings.Replace(trace, "01", "00", 1)}
	check.Equal(t, traceparent(&spec), strings.Replace(trace, "01", "00", 1), "the trace of the start is")
}

// What a job is told can't end its request, nor begin another header.
func FuzzAHeadHasOneLineForEachHeader(f *testing.F) {
	f.Add("mail", "JOBD_X=y", "@abcdefghi")
	f.Add("a\r\nb: c", "JOBD_X\r\nY=\r\n", "\x00")
	line := regexp.MustCompile(`^[A-Za-z0-9-]+: [ -~]+$`)
	h := newHTTP(jobexec.Service{Mode: jobexec.ModeHTTP, URL: "http://host/{id}", Secret: "s"}, nil)
	f.Fuzz(func(t *testing.T, target, variable, token string) {
		spec := jobexec.Spec{Job: 1, Attempt: 1, Target: target, Vars: []string{variable}, Token: token}
		head, ended := strings.CutSuffix(string(h.head(&spec, time.Now())), "\r\n\r\n")
		lines := strings.Split(head, "\r\n")
		if !ended || lines[0] != "POST /1 HTTP/1.1" {
			t.Fatalf("the head is %q", head)
		}
		for _, l := range lines[1:] {
			if name, value, _ := strings.Cut(l, ": "); !line.MatchString(l) && value != "" {
				t.Errorf("%s: %q", name, value)
			}
		}
	})
}

// said is what a test looks at of an outcome.
type said struct {
	Result     string
	Code       int
	Final      bool
	RetryAfter int64
	Out, Err   string
	Note       string
	Unknown    string // why nobody can tell
}

func saidOf(done journal.Done, err error) said {
	s := said{
		Result: done.Result, Code: -1, Final: done.Final, RetryAfter: done.RetryAfter, Note: done.Note,
		Out: string(done.Stdout.Kept), Err: string(done.Stderr.Kept),
	}
	if done.Code != nil {
		s.Code = *done.Code
	}
	if err != nil {
		s.Unknown = strings.TrimSuffix(err.Error(), ": "+jobexec.ErrOutcomeUnknown.Error())
	}
	return s
}

// answering is a server that answers each request, over as many connections as there are, with the same
// bytes, and then closes the connection.
func answering(t *testing.T, text string) string {
	t.Helper()
	return raw(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			fmt.Fprint(c, text)
		}
	})
}

// plain is an answer with a body.
func plain(status, headers, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s", status, headers, len(body), body)
}

func TestWhatAnAnswerMeans(t *testing.T) {
	t.Parallel()
	failed := func(status string, of said) said {
		of.Result, of.Err = "fail", "HTTP/1.1 "+status+"\nwhy"
		if of.Note != "" { // which stands on a line of its own
			of.Err += "\n"
		}
		return of
	}
	cases := map[string]struct {
		answer string
		want   said
	}{
		"200":                   {plain("200 OK", "", "out"), said{Result: "ok", Out: "out"}},
		"201":                   {plain("201 Created", "", "out"), said{Result: "ok", Out: "out"}},
		"204":                   {"HTTP/1.1 204 No Content\r\n\r\n", said{Result: "ok"}},
		"301, not followed":     {plain("301 Moved", "Location: /other\r\n", "why"), failed("301 Moved", said{Code: 3, Final: true})},
		"304":                   {"HTTP/1.1 304 Not Modified\r\n\r\n", said{Result: "fail", Code: 3, Final: true, Err: "HTTP/1.1 304 Not Modified\n"}},
		"400":                   {plain("400 Bad Request", "", "why"), failed("400 Bad Request", said{Code: 4, Final: true})},
		"404":                   {plain("404 Not Found", "Retry-After: 7\r\n", "why"), failed("404 Not Found", said{Code: 4, Final: true})},
		"408":                   {plain("408 Request Timeout", "", "why"), failed("408 Request Timeout", said{Code: 4})},
		"425":                   {plain("425 Too Early", "Retry-After: 3\r\n", "why"), failed("425 Too Early", said{Code: 4, RetryAfter: 3})},
		"429":                   {plain("429 Too Many Requests", "Retry-After: 120\r\n", "why"), failed("429 Too Many Requests", said{Code: 4, RetryAfter: 120})},
		"503, at a date":        {plain("503 Busy", "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:50:37 GMT\r\n", "why"), failed("503 Busy", said{Code: 5, RetryAfter: 60})},
		"500":                   {plain("500 Internal Server Error", "Retry-After: 7\r\n", "why"), failed("500 Internal Server Error", said{Code: 5})},
		"501":                   {plain("501 Not Implemented", "", "why"), failed("501 Not Implemented", said{Code: 5})},
		"502":                   {plain("502 Bad Gateway", "", "why"), failed("502 Bad Gateway", said{Code: 5, Unknown: "HTTP/1.1 502 Bad Gateway: the service behind it may have had the request"})},
		"504":                   {plain("504 Gateway Timeout", "", "why"), failed("504 Gateway Timeout", said{Code: 5, Unknown: "HTTP/1.1 504 Gateway Timeout: the service behind it may have had the request"})},
		"its own code":          {plain("200 OK", "Jobd-Exit-Code: 3\r\n", "why"), failed("200 OK", said{Code: 3})},
		"its own 65":            {plain("422 No", "Jobd-Exit-Code: 65\r\n", "why"), failed("422 No", said{Code: 65, Final: true})},
		"its own 0":             {plain("500 Odd", "Jobd-Exit-Code: 0\r\n", "out"), said{Result: "ok", Out: "out"}},
		"its own 1 by a 502":    {plain("502 Bad", "Jobd-Exit-Code: 1\r\n", "why"), failed("502 Bad", said{Code: 1})},
		"no code":               {plain("200 OK", "Jobd-Exit-Code: 256\r\n", "why"), failed("200 OK", said{Code: 2, Note: `Jobd-Exit-Code "256" is not an exit code: 0 to 255`})},
		"no code either":        {plain("200 OK", "Jobd-Exit-Code: -1\r\n", "why"), failed("200 OK", said{Code: 2, Note: `Jobd-Exit-Code "-1" is not an exit code: 0 to 255`})},
		"two codes":             {plain("200 OK", "Jobd-Exit-Code: 0\r\nJobd-Exit-Code: 0\r\n", "why"), failed("200 OK", said{Code: 2, Note: `Jobd-Exit-Code "0, 0" is not an exit code: 0 to 255`})},
		"another's":             {plain("200 OK", "Jobd-Claim: 7-1-@abcdefghi\r\n", "out"), said{Code: -1, Unknown: `the answer is another request's: its Jobd-Claim is "7-1-@abcdefghi", not "7-2-@abcdefghi"`}},
		"its code at the end":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Jobd-Exit-Code\r\n\r\n3\r\nwhy\r\n0\r\nJobd-Exit-Code: 3\r\n\r\n", failed("200 OK", said{Code: 3})},
		"a code at each end":    {"HTTP/1.1 200 OK\r\nJobd-Exit-Code: 0\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nwhy\r\n0\r\nJobd-Exit-Code: 3\r\n\r\n", failed("200 OK", said{Code: 2, Note: `Jobd-Exit-Code "0, 3" is not an exit code: 0 to 255`})},
		"compressed":            {plain("200 OK", "Content-Encoding: gzip\r\n", "\x1f\x8b"), said{Result: "ok", Out: "\x1f\x8b"}},
		"in pieces":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nou\r\n1\r\nt\r\n0\r\nX: y\r\n\r\n", said{Result: "ok", Out: "out"}},
		"informed before":       {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + plain("200 OK", "", "out"), said{Result: "ok", Out: "out"}},
		"HTTP/1.0, to its end":  {"HTTP/1.0 200 OK\r\n\r\nout", said{Result: "ok", Out: "out"}},
		"HTTP/1.1, to its end":  {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nout", said{Result: "ok", Out: "out"}},
		"HTTP/0.9":              {"<html>hello</html>\n", said{Code: -1, Unknown: `there was no answer: malformed HTTP response "<html>hello</html>"`}},
		"nothing":               {"", said{Code: -1, Unknown: "there was no answer: the connection was closed"}},
		"another protocol":      {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", said{Code: -1, Unknown: "the answer wants another protocol, which was not asked for"}},
		"HTTP/2":                {"HTTP/2.0 200 OK\r\n\r\n", said{Code: -1, Unknown: `the answer is not HTTP/1.1: "HTTP/2.0 200 OK"`}},
		"no status":             {"HTTP/1.1 999 Odd\r\n\r\n", said{Code: -1, Unknown: `the answer is not HTTP/1.1: "HTTP/1.1 999 Odd"`}},
		"two lengths":           {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", said{Code: -1, Unknown: `there was no answer: http: message cannot contain multiple Content-Length headers; got ["1" "2"]`}},
		"a huge head":           {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", mostHead) + "\r\n\r\n", said{Code: -1, Unknown: "the head of the answer is longer than 262144 bytes"}},
		"informed without end":  {strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", mostHead/27+1) + plain("200 OK", "", ""), said{Code: -1, Unknown: "the head of the answer is longer than 262144 bytes"}},
		"cut in its body":       {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", said{Result: "ok", Out: "half", Unknown: "the answer was cut short: the connection was closed"}},
		"a failure, cut":        {"HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nwhy", failed("500 No", said{Code: 5, Unknown: "the answer was cut short: the connection was closed"})},
		"in pieces, misspelled": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", said{Result: "ok", Unknown: "the answer was cut short: invalid byte in chunk length"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			spec := specOf(jobexec.Service{Mode: jobexec.ModeHTTP, URL: answering(t, c.answer)})
			done, err := f.run(spec)
			check.Equal(t, cmp.Diff(c.want, saidOf(done, err)), "", "its outcome (-want +got)")
			check.Equal(t, (err != nil), errors.Is(err, jobexec.ErrOutcomeUnknown), "the error is %v", err)
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		said, date string
		want       int64
	}{
		{"", "", 0},
		{"30", "", 30},
		{" 30 ", "", 30},
		{"0", "", 1},
		{"86400", "", 86400},
		{"86401", "", 86400},
		{"99999999999999999999999", "", 86400},
		{"-5", "", 0},
		{"1.5", "", 0},
		{"soon", "", 0},
		{at(90 * time.Second), "", 90},
		{at(-time.Hour), "", 1},
		{at(25 * time.Hour), "", 86400},
		{at(time.Hour + time.Minute), at(time.Hour), 60}, // its clock is an hour ahead
		{at(time.Minute), "nonsense", 60},
		{now.Add(90 * time.Second).Format(time.ANSIC), "", 90},
	} {
		h := http.Header{}
		h.Set("Retry-After", c.said)
		h.Set("Date", c.date)
		check.Equal(t, retryAfter(h, now), c.want, "Retry-After: %s with Date: %s is … s", c.said, c.date)
	}
}

func TestOutputBeyondTheLimitIsCounted(t *testing.T) {
	t.Parallel()
	const size = 5_000_000
	for status, prefix := range map[string]string{"200 OK": "", "500 No": "HTTP/1.1 500 No\n"} {
		f := newFixture(t)
		spec := specOf(jobexec.Service{Mode: jobexec.ModeHTTP, URL: answering(t, plain(status, "", strings.Repeat("x", size)))})
		spec.MaxOutput = 1000
		done, err := f.run(spec)
		out := done.Stdout
		if prefix != "" {
			out = done.Stderr
		}
		if want := prefix + strings.Repeat("x", 1000-len(prefix)); err != nil || string(out.Kept) != want || out.Size != int64(size+len(prefix)) {
			t.Errorf("%s: kept %.60q, %d of %d bytes, %v", status, out.Kept, len(out.Kept), out.Size, err)
		}
	}
}

// Regression: when a job's time is over was reckoned before its request waited for a connection, and
// its timeout from when it was sent.
func TestAServiceIsToldWhenTheRequestIsGivenUp(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Jobd-Deadline") })
	f, spec := served(t, url+"/run/{id}")
	spec.Vars = []string{"JOBD_DEADLINE=" + strconv.FormatInt(time.Now().Add(-time.Minute).Unix(), 10)}
	spec.Timeout = time.Hour
	sent := time.Now()
	done := must.Get(f.run(spec))(t)
	must.Equal(t, done.Result, "ok", "it ended as %+v", done)
	told := <-seen
	if at, err := strconv.ParseInt(told, 10, 64); err != nil || at < sent.Add(spec.Timeout).Unix() || at > time.Now().Add(spec.Timeout).Unix() {
		t.Errorf("it is told %q; sent at %d", told, sent.Unix())
	}
}

// The end of TLS comes as data, before that of the connection.
func TestAnIdleConnectionThatEndsItsTLSIsNotUsed(t *testing.T) {
	t.Parallel()
	good, roots := certificate(t, "127.0.0.1", time.Now().Add(24*time.Hour))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		ended := make(chan struct{})
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c, out, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprint(out, plain("200 OK", "", "out"))
			out.Flush()
			_ = c.(*tls.Conn).CloseWrite() // the client may have gone
			ended <- struct{}{}
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{good}, MaxVersion: version, MinVersion: version}
		server.StartTLS()
		t.Cleanup(server.Close)
		f, spec := trusting(t, server.URL, roots)
		for range 10 {
			if done, err := f.run(spec); err != nil || done.Result != "ok" {
				t.Fatalf("%s: it ended as %+v, %v", tls.VersionName(version), done, err)
			}
			<-ended
			f.closedIdle()
		}
	}
}

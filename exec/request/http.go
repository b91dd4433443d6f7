package request

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
)

// httpService speaks HTTP/1.1 over connections of its own: each request is written once, to one
// connection that was there before, so nothing between here and the wire can send it again. Proxies,
// redirects and compression there are none.
type httpService struct {
	path    string // of the URL, with its query, and someID for the job's
	secret  string
	host    string // as requests name it
	address string // host:port, to dial
	secure  *tls.Config
}

// newHTTP makes the service of a URL, which the configuration has looked at.
func newHTTP(of jobexec.Service, roots *x509.CertPool) *httpService {
	u, err := url.Parse(strings.ReplaceAll(of.URL, "{id}", someID))
	if err != nil {
		u = &url.URL{Host: "url.invalid"} // the configuration refuses it: there is no such host
	}
	h := &httpService{path: u.RequestURI(), secret: of.Secret, host: u.Host}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
		h.secure = &tls.Config{
			ServerName: u.Hostname(), RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		}
	}
	h.address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	return h
}

// someID stands for a job's id while a URL is read.
const someID = "8613270945861327094"

func (h *httpService) where() string {
	if h.secure != nil {
		return "https://" + h.address
	}
	return "http://" + h.address
}

// dial connects, and makes TLS where that is wanted.
func (h *httpService) dial(ctx context.Context) (*connection, error) {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "tcp", h.address)
	if err != nil {
		return nil, err
	}
	address := namedAddress(h.address, raw.RemoteAddr())
	if h.secure == nil {
		return connected(raw, address), nil
	}
	secured := tls.Client(raw, h.secure)
	if err := secured.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return connected(secured, address), nil
}

// namedAddress is where a connection leads to: IP:PORT, behind the host's name where it has one, or a socket.
func namedAddress(dialled string, remote net.Addr) string {
	if host, _, err := net.SplitHostPort(dialled); err == nil && net.ParseIP(host) == nil {
		return host + " " + remote.String()
	}
	return remote.String()
}

// method is what all requests are. A POST is what nobody on the way may repeat.
const method = "POST"

// head is a request without a body.
func (h *httpService) head(spec *jobexec.Spec, now time.Time) []byte {
	path := strings.ReplaceAll(h.path, someID, strconv.FormatInt(spec.Job, 10))
	headers := headersOf(spec, now)
	if h.secret != "" {
		headers = append(headers, header{"Jobd-Signature", h.signature(path, headers, now)})
	}
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, h.host)
	b = append(b, "User-Agent: jobd\r\nContent-Length: 0\r\nAccept-Encoding: identity\r\n"...)
	for _, h := range headers {
		b = fmt.Appendf(b, "%s: %s\r\n", h.Name, h.Value)
	}
	return append(b, "\r\n"...)
}

// header is a line of a request's head.
type header struct{ Name, Value string }

// claimHeader names a start in its request, and in the answer of a service that echoes it: by that an
// answer is known to be of this request, and of no other that had the connection before.
const claimHeader = "Jobd-Claim"

func claimOf(spec *jobexec.Spec) string {
	return fmt.Sprintf("%d-%d-%s", spec.Job, spec.Attempt, spec.Token)
}

// variablesOf is what a service is told of a job: which start it is, and what its launcher would have in
// its environment. When its time is over was reckoned before it waited for its connection.
func variablesOf(spec *jobexec.Spec, now time.Time) []header {
	told := []header{
		{"JOBD_ID", strconv.FormatInt(spec.Job, 10)},
		{"JOBD_ATTEMPT", strconv.Itoa(spec.Attempt)},
		{"JOBD_TARGET", spec.Target},
		{"JOBD_CLAIM", claimOf(spec)},
	}
	for _, variable := range spec.Vars {
		name, value, _ := strings.Cut(variable, "=")
		if name == "JOBD_DEADLINE" && spec.Timeout > 0 {
			value = strconv.FormatInt(now.Add(spec.Timeout).Unix(), 10)
		}
		known := slices.ContainsFunc(told, func(h header) bool { return h.Name == name })
		if strings.HasPrefix(name, "JOBD_") && !known {
			told = append(told, header{name, value})
		}
	}
	return told
}

// headersOf is the same as headers: JOBD_MAX_ATTEMPTS=3 becomes Jobd-Max-Attempts: 3.
func headersOf(spec *jobexec.Spec, now time.Time) []header {
	var headers []header
	for _, v := range variablesOf(spec, now) {
		if name := named(v.Name); name != "" {
			headers = append(headers, header{name, encoded(v.Value)})
		}
	}
	if parent := traceparent(spec); parent != "" {
		headers = append(headers, header{"traceparent", parent})
	}
	return headers
}

// named is the header of a variable that is told of a start; "" where it is none.
func named(variable string) string {
	words := strings.Split(strings.ToLower(variable), "_")
	for i, word := range words {
		if word == "" || strings.ContainsFunc(word, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
			return ""
		}
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "-")
}

// encoded is a text as a header's value: what is not visible ASCII is percent-encoded, so that a receiver
// sees the very bytes that were signed, whatever it takes headers for.
func encoded(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// traced is a traceparent of W3C's Trace Context.
var traced = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceparent is the trace that the job belongs to, where its variables or its launcher's environment
// name one.
func traceparent(spec *jobexec.Spec) string {
	for _, variables := range [][]string{spec.Vars, spec.Env} {
		for _, variable := range variables {
			name, value, _ := strings.Cut(variable, "=")
			if name = strings.ToUpper(name); (name == "TRACEPARENT" || name == "JOBD_TRACEPARENT") && traced.MatchString(value) {
				return value
			}
		}
	}
	return ""
}

// signature proves to the service that the request comes from who knows the secret, and when it was
// made. Of what a request has not, as a deadline, the line is empty.
func (h *httpService) signature(path string, headers []header, now time.Time) string {
	value := func(name string) string {
		for _, h := range headers {
			if h.Name == name {
				return h.Value
			}
		}
		return ""
	}
	t := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(h.secret))
	mac.Write([]byte(strings.Join([]string{
		t, method, h.host, path,
		value("Jobd-Id"), value("Jobd-Attempt"), value(claimHeader), value("Jobd-Target"), value("Jobd-Deadline"),
	}, "\n")))
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// mostHead is how much is read of an answer before its body: its status and headers, and whatever
// informational answers come before it.
const mostHead = 256 << 10

// ask implements protocol.
func (h *httpService) ask(c *connection, spec *jobexec.Spec) (a answer) {
	now, claim, kept := time.Now(), encoded(claimOf(spec)), c.used
	c.used = true
	if _, err := c.Write(h.head(spec, now)); err != nil {
		a.err = fmt.Errorf("the connection was lost while the request was sent: %w", err)
		return a
	}
	c.head.N = mostHead
	response, err := final(c)
	c.head.N = math.MaxInt64
	if err != nil {
		a.err = err
		return a
	}
	echo := response.Header.Get(claimHeader)
	if echo != "" && echo != claim {
		a.err = fmt.Errorf("the answer is another request's: its "+claimHeader+" is %.100q, not %q", echo, claim)
		return a
	}
	body := &collected{limit: spec.MaxOutput}
	_, err = io.Copy(body, response.Body)
	judge(&a, response, now)
	if a.done.Result == "ok" {
		a.done.Stdout = body.output()
	} else {
		all := collected{limit: spec.MaxOutput}
		all.add([]byte(statusLine(response) + "\n"))
		all.join(body)
		a.done.Stderr = all.output()
	}
	switch {
	case err != nil:
		a.err = fmt.Errorf("the answer was cut short: %w", told(err))
	case a.done.Result == "ok" && echo == "" && kept: // pages that tell of errors may lack it
		a.err = errors.New("the answer may be an earlier request's: the previous one had " + claimHeader + ", this one has not")
	}
	measured := response.ContentLength >= 0 || len(response.TransferEncoding) > 0
	a.reusable = a.err == nil && echo == claim && !response.Close && measured && response.ProtoAtLeast(1, 1) && c.reader.Buffered() == 0
	return a
}

// final reads the head of the answer that says how it ended; informational ones may come before it.
func final(c *connection) (*http.Response, error) {
	for {
		response, err := http.ReadResponse(c.reader, &http.Request{Method: method})
		switch {
		case err != nil && c.head.N <= 0:
			return nil, fmt.Errorf("the head of the answer is longer than %d bytes", mostHead)
		case err != nil:
			return nil, fmt.Errorf("there was no answer: %w", told(err))
		case response.ProtoMajor != 1 || response.StatusCode < 100 || response.StatusCode > 599:
			return nil, fmt.Errorf("the answer is not HTTP/1.1: %.100q", statusLine(response))
		case response.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the answer wants another protocol, which was not asked for")
		case response.StatusCode >= 200:
			return response, nil
		}
	}
}

// told is an error as people understand it.
func told(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the connection was closed")
	}
	return err
}

func statusLine(r *http.Response) string { return r.Proto + " " + r.Status }

// judge says what an answer means, with the headers behind its body: the table of docs/executors-http.md.
func judge(a *answer, r *http.Response, now time.Time) {
	class := r.StatusCode / 100
	said := slices.Concat(r.Header.Values(exitHeader), r.Trailer.Values(exitHeader))
	code, understood := exitCode(said, &a.done)
	switch r.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		a.done.RetryAfter = retryAfter(r.Header, now)
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		if !understood {
			a.err = fmt.Errorf("%s: the service behind it may have had the request", statusLine(r))
		}
	default:
		a.done.Final = class == 3 || class == 4
	}
	switch {
	case understood:
	case len(said) == 0 && class == 2:
		code = 0
	default:
		code = class
	}
	a.done.Code, a.done.Result = &code, "fail"
	if code == 0 {
		a.done.Result, a.done.Final, a.done.RetryAfter = "ok", false, 0
	}
}

// exitHeader is the header by which a service itself tells a job's exit code.
const exitHeader = "Jobd-Exit-Code"

// exitCode is what the service itself says of the job's end, above all statuses. What it says must be
// understood: else a job that has failed could count as done.
func exitCode(said []string, done *journal.Done) (code int, understood bool) {
	if len(said) == 0 {
		return 0, false
	}
	code, err := strconv.Atoi(said[0])
	if len(said) > 1 || err != nil || code < 0 || code > 255 {
		note(done, fmt.Sprintf(exitHeader+" %.40q is not an exit code: 0 to 255", strings.Join(said, ", ")))
		return 0, false
	}
	return code, true
}

func note(done *journal.Done, text string) {
	if done.Note != "" {
		text = done.Note + "; " + text
	}
	done.Note = text
}

// longestRetry is as far as a service can put off the next attempt.
const longestRetry = 24 * time.Hour

// retryAfter is in how many seconds the service wants the next attempt; 0 where it does not say. A date
// is one of the service's clock, which the answer tells, too.
func retryAfter(h http.Header, now time.Time) int64 {
	said := strings.TrimSpace(h.Get("Retry-After"))
	most := int64(longestRetry / time.Second)
	seconds, err := strconv.ParseUint(said, 10, 62)
	if err == nil || errors.Is(err, strconv.ErrRange) { // then it is the largest number
		return min(max(int64(seconds), 1), most)
	}
	at, err := http.ParseTime(said)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(int64((at.Sub(now)+time.Second-1)/time.Second), 1), most)
}

// collected keeps the beginning of what a service has written, and counts the rest.
type collected struct {
	limit int
	kept  []byte
	size  int64
}

// Write implements io.Writer. It never fails.
func (c *collected) Write(p []byte) (int, error) {
	c.add(p)
	return len(p), nil
}

func (c *collected) add(p []byte) {
	c.size += int64(len(p))
	c.kept = append(c.kept, p[:min(len(p), max(0, c.limit-len(c.kept)))]...)
}

func (c *collected) output() journal.Output { return journal.Output{Kept: c.kept, Size: c.size} }

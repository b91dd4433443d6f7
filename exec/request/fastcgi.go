package request

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"syscall"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/request/fcgi"
	"jobd/journal"
)

// fastcgiService speaks FastCGI, over a connection for each request. A connection that stays would keep
// a process of php-fpm to itself, which serves nobody else as long as it has one.
type fastcgiService struct {
	network string // unix or tcp
	address string // a path, or host:port
	script  string
}

// newFastCGI makes the service at an address, which the configuration has looked at.
func newFastCGI(of jobexec.Service) *fastcgiService {
	f := &fastcgiService{network: "unix", address: of.Address, script: of.Script}
	if !strings.HasPrefix(of.Address, "/") {
		f.network = "tcp"
	}
	return f
}

func (f *fastcgiService) where() string { return "fastcgi:" + f.address }

// dial connects. A unix socket whose queue is full refuses connections, which is a shortage that passes.
func (f *fastcgiService) dial(ctx context.Context) (*connection, error) {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, f.network, f.address)
	if err != nil {
		return nil, err
	}
	return connected(raw, namedAddress(f.address, raw.RemoteAddr())), nil
}

// params are what the script is told: by JOBD_… of the job, by the names of CGI of the request.
func (f *fastcgiService) params(spec *jobexec.Spec, now time.Time) []fcgi.Param {
	id := strconv.FormatInt(spec.Job, 10)
	params := []fcgi.Param{
		{Name: "GATEWAY_INTERFACE", Value: "CGI/1.1"},
		{Name: "SERVER_SOFTWARE", Value: "jobd"},
		{Name: "SERVER_NAME", Value: "jobd"},
		{Name: "SERVER_PORT", Value: "0"},
		{Name: "SERVER_PROTOCOL", Value: "HTTP/1.1"},
		{Name: "REMOTE_ADDR", Value: "127.0.0.1"},
		{Name: "REQUEST_METHOD", Value: method},
		{Name: "CONTENT_LENGTH", Value: "0"},
		{Name: "CONTENT_TYPE", Value: ""},
		{Name: "SCRIPT_FILENAME", Value: f.script},
		{Name: "SCRIPT_NAME", Value: f.script},
		{Name: "REQUEST_URI", Value: f.script + "?" + id},
		{Name: "QUERY_STRING", Value: id},
	}
	for _, v := range variablesOf(spec, now) {
		params = append(params, fcgi.Param(v))
	}
	if parent := traceparent(spec); parent != "" {
		params = append(params, fcgi.Param{Name: "TRACEPARENT", Value: parent})
	}
	return params
}

// ask implements protocol.
func (f *fastcgiService) ask(c *connection, spec *jobexec.Spec) (a answer) {
	now := time.Now()
	c.used = true
	if _, err := c.Write(fcgi.Request(f.params(spec, now))); err != nil {
		a.err = fmt.Errorf("the connection was lost while the request was sent: %w", err)
		return a
	}
	said := cgi{out: collected{limit: spec.MaxOutput}, err: collected{limit: spec.MaxOutput}}
	if err := said.read(fcgi.NewReader(c.reader)); err != nil {
		a.done.Stdout, a.done.Stderr = said.out.output(), said.err.output()
		a.err = fmt.Errorf("the request did not end: %w", told(err))
		return a
	}
	said.judge(&a, now)
	return a
}

// cgi is what a script has said: a head, as of CGI, and then its output.
type cgi struct {
	records *fcgi.Reader
	piece   []byte   // of stdout, which was not looked at yet
	over    error    // why there is no further record; io.EOF: the request has ended
	end     fcgi.End // then

	head *http.Response // nil: there was none, or none that can be understood
	out  collected      // what came behind the head; all, where there is none
	err  collected
}

// read reads all of it, up to the end of the request.
func (s *cgi) read(records *fcgi.Reader) error {
	s.records = records
	stdout := bufio.NewReader(s)
	head, err := readHead(stdout)
	if err != nil && !errors.Is(err, io.EOF) {
		s.out.add(head)
		return err
	}
	if s.head = parseHead(head); s.head == nil {
		s.out.add(head)
	}
	_, err = io.Copy(&s.out, stdout)
	return err
}

// Read implements io.Reader, of stdout. Its io.EOF is the end of the request, and nothing else.
func (s *cgi) Read(p []byte) (int, error) {
	for len(s.piece) == 0 {
		if s.over != nil {
			return 0, s.over
		}
		s.next()
	}
	n := copy(p, s.piece)
	s.piece = s.piece[n:]
	return n, nil
}

// next reads a record. What came of one that was cut counts, too.
func (s *cgi) next() {
	record, err := s.records.Next()
	switch {
	case record.Type == fcgi.Stdout:
		s.piece = record.Content
	case record.Type == fcgi.Stderr:
		s.err.add(record.Content)
	case err == nil:
		if s.end, err = record.End(); err == nil {
			s.over = io.EOF
			return
		}
	}
	// The end of the connection is not that of stdout. A server that dies leaves bytes unread, and so
	// the connection is reset.
	if s.over = err; errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		s.over = io.ErrUnexpectedEOF
	}
}

// readHead reads up to the first empty line, and gives what it has read. What is longer than a head may
// be is none.
func readHead(from *bufio.Reader) (head []byte, err error) {
	for len(head) < mostHead {
		piece, err := from.ReadSlice('\n')
		head = append(head, piece...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return head, err
		case len(head) <= 2 && len(bytes.TrimRight(head, "\r\n")) == 0, bytes.HasSuffix(head, []byte("\n\n")), bytes.HasSuffix(head, []byte("\n\r\n")):
			return head, nil
		}
	}
	return head, nil
}

// parseHead understands a head, with its empty line; nil where it is none.
func parseHead(text []byte) *http.Response {
	headers, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(text))).ReadMIMEHeader()
	if err != nil {
		return nil
	}
	r := &http.Response{Proto: "Status:", Header: http.Header(headers)}
	r.Status = r.Header.Get("Status")
	switch {
	case r.Status != "":
	case r.Header.Get("Location") != "":
		r.Status = "302 Found"
	default:
		r.Status = "200 OK"
	}
	digits, _, _ := bytes.Cut([]byte(r.Status), []byte(" "))
	r.StatusCode, err = strconv.Atoi(string(digits))
	if err != nil || r.StatusCode < 100 || r.StatusCode > 599 {
		return nil
	}
	return r
}

// judge says what a request that has ended means: as with HTTP, but that a status of success alone
// means nothing. PHP gives one for an uncaught exception that it has displayed, and for exit(3).
func (s *cgi) judge(a *answer, now time.Time) {
	r := s.head
	switch {
	case s.end.Protocol != fcgi.Complete:
		r = &http.Response{Proto: "Status:", Status: "503 " + s.end.Refusal(), StatusCode: http.StatusServiceUnavailable}
		note(&a.done, "the FastCGI server has refused the request")
	case r == nil:
		r = &http.Response{Proto: "Status:", Status: "none", StatusCode: http.StatusInternalServerError}
		note(&a.done, "the script ended without a valid head")
	}
	succeeded := r.StatusCode/100 == 2
	if !succeeded && r.Header.Get(exitHeader) == "0" {
		r.Header.Del(exitHeader) // the status was set after it
	}
	judge(a, r, now)
	if succeeded && len(r.Header.Values(exitHeader)) == 0 {
		a.done.Result = "fail"
		if code := int(s.end.App); s.end.App > 0 && s.end.App < 256 {
			a.done.Code = &code
		} else {
			code = r.StatusCode / 100
			a.done.Code = &code
		}
		note(&a.done, "there is no "+exitHeader+" header: the script did not end, or did not send it")
	}
	if a.done.Stdout = s.out.output(); a.done.Result != "ok" {
		a.done.Stdout = journal.Output{}
	}
	a.done.Stderr = s.stderr(r, a.done.Result == "ok")
}

// stderr is what the script has written there. Of a job that has failed the status stands before it, and
// then what would be its stdout: the last line, which lists and logs show, is the script's own of its error.
// Where all of it is too much, it is the end of that stdout that is missing.
func (s *cgi) stderr(r *http.Response, ok bool) journal.Output {
	if ok {
		return s.err.output()
	}
	all := collected{limit: s.err.limit}
	all.add([]byte(statusLine(r) + "\n"))
	shown := s.out.kept[:min(len(s.out.kept), max(0, all.limit-len(all.kept)-len(s.err.kept)-1))]
	all.add(shown)
	if n := len(shown); n > 0 && shown[n-1] != '\n' && s.err.size > 0 {
		all.add([]byte("\n"))
	}
	all.size += s.out.size - int64(len(shown))
	all.join(&s.err)
	return all.output()
}

// join adds what another one has collected.
func (c *collected) join(other *collected) {
	c.add(other.kept)
	c.size += other.size - int64(len(other.kept))
}

package request

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
)

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

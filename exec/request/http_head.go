package request

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	jobexec "jobd/exec"
)

// method is what all requests are. A POST is what nobody on the way may repeat.
const method = "POST"

// head is a request without a body.
func (h *httpService) head(spec *jobexec.Spec, now time.Time) []byte {
	path := strings.ReplaceAll(h.path, someID, strconv.FormatInt(spec.Job, 10))
	headers := headersOf(spec)
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
// its environment.
func variablesOf(spec *jobexec.Spec) []header {
	told := []header{
		{"JOBD_ID", strconv.FormatInt(spec.Job, 10)},
		{"JOBD_ATTEMPT", strconv.Itoa(spec.Attempt)},
		{"JOBD_TARGET", spec.Target},
		{"JOBD_CLAIM", claimOf(spec)},
	}
	for _, variable := range spec.Vars {
		name, value, _ := strings.Cut(variable, "=")
		known := slices.ContainsFunc(told, func(h header) bool { return h.Name == name })
		if strings.HasPrefix(name, "JOBD_") && !known {
			told = append(told, header{name, value})
		}
	}
	return told
}

// headersOf is the same as headers: JOBD_MAX_ATTEMPTS=3 becomes Jobd-Max-Attempts: 3.
func headersOf(spec *jobexec.Spec) []header {
	var headers []header
	for _, v := range variablesOf(spec) {
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
	if visible(text) && !strings.Contains(text, "%") {
		return text
	}
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

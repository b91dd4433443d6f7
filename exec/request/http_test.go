package request

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	jobexec "jobd/exec"
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
		if done, err := f.run(spec); err != nil || done.Result != "ok" {
			t.Fatalf("it ended as %+v, %v", done, err)
		}
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
		if want := fmt.Sprintf("%x", h.Sum(nil)); mac != want {
			t.Errorf("the signature is %s, not %s, of %+v", mac, want, r)
		}
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
	if got.String() != want {
		t.Errorf("its headers are\n%s, not\n%s", got.String(), want)
	}
	spec.Vars = []string{"JOBD_TRACEPARENT=" + strings.Replace(trace, "01", "00", 1)}
	if got := traceparent(&spec); got != strings.Replace(trace, "01", "00", 1) {
		t.Errorf("the trace of the start is %q", got)
	}
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

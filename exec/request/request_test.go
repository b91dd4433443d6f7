package request

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	jobexec "jobd/exec"
)

func TestARequestFromItsConnectionToItsOutcome(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if len(body) > 0 {
			t.Errorf("the request has a body: %q", body)
		}
		seen <- r
		fmt.Fprint(w, "sent\x00 to somebody\n")
	})
	f, spec := served(t, url+"/run/{id}?id={id}")
	news := make(chan jobexec.News, 2)
	spec.Tell = func(n jobexec.News) { news <- n }
	spec.Vars = []string{"JOBD_ATTEMPT=2", "JOBD_DEADLINE=1700000000", "JOBD_MAX_ATTEMPTS=3", "TZ=UTC"}
	p := f.start(spec)
	wait(t, "begun", p.Begun())
	if told := <-news; told != (jobexec.News{Job: 7, Token: "@abcdefghi", Attempt: 2}) {
		t.Errorf("of its begin was told: %+v", told)
	}
	if got, want := p.Started().Address, strings.TrimPrefix(url, "http://"); got != want || !p.Started().Known() {
		t.Errorf("it goes to %q, not %q", got, want)
	}
	select {
	case <-seen:
		t.Fatal("it was sent before its start was journalled")
	case <-p.Ended():
		t.Fatal("it has ended before it was sent")
	default:
	}
	p.Proceed()
	p.Proceed() // does no harm
	wait(t, "ended", p.Ended())
	if told := <-news; !told.Ended {
		t.Errorf("of its end was told: %+v", told)
	}
	done, err := p.Outcome()
	if err != nil || done.Result != "ok" || *done.Code != 0 || string(done.Stdout.Kept) != "sent\x00 to somebody\n" ||
		done.Stdout.Size != 18 || done.Stderr.Size != 0 || done.Elapsed <= 0 {
		t.Errorf("it ended as %+v, %v", done, err)
	}
	r := <-seen
	got := fmt.Sprintln(r.Method, r.RequestURI, r.Proto, r.Header["Jobd-Id"], r.Header["Jobd-Attempt"], r.Header["Jobd-Target"],
		r.Header["Jobd-Claim"], r.Header["Jobd-Deadline"], r.Header["Jobd-Max-Attempts"], r.Header["Accept-Encoding"])
	want := "POST /run/7?id=7 HTTP/1.1 [7] [2] [mail] [7-2-@abcdefghi] [1700000000] [3] [identity]\n"
	if got != want || len(r.Header) != 9 {
		t.Errorf("the service got\n%s with %v, not\n%s", got, r.Header, want)
	}
}

func TestNoConnectionIsNoStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	spec := specOf(jobexec.Service{Mode: jobexec.ModeHTTP, URL: "http://127.0.0.1:1/"})
	done, err := f.run(spec)
	var refused *jobexec.NotStartedError
	if !errors.As(err, &refused) || refused.Short || !strings.Contains(refused.Why, "http://127.0.0.1:1: ") {
		t.Errorf("it ended as %+v, %v", done, err)
	}
}

package request

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// silent is a server that takes requests and never answers.
func silent(t *testing.T) (url string, taken chan struct{}) {
	t.Helper()
	taken = make(chan struct{}, 100)
	return raw(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		if _, err := http.ReadRequest(r); err == nil {
			taken <- struct{}{}
			_, _ = r.ReadByte() // until the other side gives up
		}
	}), taken
}

func TestASignalCancelsARequest(t *testing.T) {
	t.Parallel()
	url, taken := silent(t)
	for signal, name := range map[unix.Signal]string{unix.SIGTERM: "SIGTERM", unix.SIGINT: "SIGINT", unix.SIGKILL: "SIGKILL"} {
		f := newFixture(t)
		p := f.start(specOf(jobexec.Service{Mode: jobexec.ModeHTTP, URL: url}))
		wait(t, "begun", p.Begun())
		p.Proceed()
		wait(t, "taken", taken)
		for _, other := range []unix.Signal{unix.SIGHUP, unix.SIGUSR1, unix.SIGSTOP, unix.SIGCONT, 64} {
			check.ErrorIs(t, p.Signal(int(other)), unix.EINVAL, "signal %d", other)
		}
		check.Do(t, p.Signal(0), "a look at it")
		select {
		case <-p.Ended():
			t.Fatal("it has ended by that")
		default:
		}
		check.Do(t, p.Signal(int(signal)), "%s", name)
		wait(t, "ended", p.Ended())
		done, err := p.Outcome()
		want := "it was cancelled by " + name + " while the service had its request: nobody can tell how it ended"
		if !errors.Is(err, jobexec.ErrOutcomeUnknown) || err.Error() != want || done.Elapsed <= 0 {
			t.Errorf("it ended as %+v, %v", done, err)
		}
		check.ErrorIs(t, p.Signal(int(signal)), os.ErrProcessDone, "%s after its end", name)
	}
}

func TestARequestThatIsCancelledBeforeItIsSentWasNeverSent(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	url := serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	f, spec := served(t, url)
	p := f.start(spec)
	wait(t, "begun", p.Begun())
	check.Do(t, p.Signal(int(unix.SIGTERM)))
	wait(t, "ended", p.Ended())
	done, err := p.Outcome()
	if err != nil || done.Result != "fail" || done.Signal != "SIGTERM" || done.Code != nil || done.Reason != "it was cancelled before its request was sent" {
		t.Errorf("it ended as %+v, %v", done, err)
	}
	p.Proceed() // does nothing any more
	if _, err := f.run(spec); err != nil || requests.Load() != 1 {
		t.Errorf("two jobs, of which one was cancelled, were %d requests, %v", requests.Load(), err)
	}
}

// nobody dials, for as long as it may.
type nobody struct{ httpService }

func (nobody) dial(ctx context.Context) (*connection, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("dial: %w", ctx.Err())
}

func TestConnectingIsBoundedAndCanBeCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	of := jobexec.Service{Mode: jobexec.ModeHTTP, URL: "http://198.51.100.1/", Dial: time.Hour}
	s := newService("mail", of, &nobody{}, f.report)
	defer s.close()
	f.services["mail"] = s
	p := f.start(specOf(of))
	check.Do(t, p.Signal(int(unix.SIGKILL)))
	wait(t, "ended", p.Ended())
	if done, err := p.Outcome(); err != nil || done.Signal != "SIGKILL" || p.Started().Known() {
		t.Errorf("it ended as %+v, %v", done, err)
	}
	st := f.standing()
	check.Equal(t, st.Unready, "", "of a job that was cancelled the service is unable: %+v", st)
	s.of.Dial = time.Millisecond
	p = f.start(specOf(s.of))
	wait(t, "ended", p.Ended())
	if done, err := p.Outcome(); refused(err) == nil || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Errorf("it ended as %+v, %v", done, err)
	}
}

func TestARequestThatIsNotAnsweredInTimeIsUnknown(t *testing.T) {
	t.Parallel()
	slow := raw(t, func(c net.Conn) { // it says a byte now and then, for ever
		r := bufio.NewReader(c)
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n")
		for {
			if _, err := fmt.Fprint(c, "x"); err != nil {
				return
			}
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			_, _ = r.ReadByte()
		}
	})
	never, _ := silent(t)
	for name, url := range map[string]string{"never": never, "slow": slow} {
		f := newFixture(t)
		spec := specOf(jobexec.Service{Mode: jobexec.ModeHTTP, URL: url})
		spec.Timeout = 100 * time.Millisecond
		done, err := f.run(spec)
		want := "the service did not answer within its timeout of 100ms: nobody can tell how it ended"
		if !errors.Is(err, jobexec.ErrOutcomeUnknown) || err.Error() != want || done.Elapsed < 100_000 {
			t.Errorf("%s: it ended as %+v, %v", name, done, err)
		}
	}
}

// A request that is cancelled while it may be sent as well is not sent: the cancellation came before
// anything was written.
func TestARequestThatIsCancelledAndMayBeSentIsNotSent(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	f, spec := served(t, serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	for range 50 {
		p := f.start(spec).(*process)
		wait(t, "begun", p.Begun())
		p.cancel(&cancelledError{unix.SIGTERM})
		p.Proceed()
		wait(t, "ended", p.Ended())
		if done, err := p.Outcome(); err != nil || done.Signal != "SIGTERM" || requests.Load() != 0 {
			t.Fatalf("it ended as %+v, %v, after %d requests", done, err, requests.Load())
		}
	}
}

// A request is taken back while its connection is being made: it was not started, and nothing is wrong
// with its service. One that has its connection is not.
func TestARequestIsTakenBackWhileItConnects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	of := jobexec.Service{Mode: jobexec.ModeHTTP, URL: "http://198.51.100.1/", Dial: time.Hour}
	s := newService("mail", of, &nobody{}, f.report)
	defer s.close()
	f.services["mail"] = s
	p := f.start(specOf(of)).(*process)
	p.Withdraw()
	wait(t, "ended", p.Ended())
	if _, err := p.Outcome(); refused(err) == nil || !refused(err).Short || err.Error() != "it was taken back while it waited for its connection" || p.Started().Known() {
		t.Errorf("it ended with %v", err)
	}
	st := f.standing()
	check.Equal(t, st.Unready, "", "the service is unable: %+v", st)
	g, spec := served(t, serve(t, func(http.ResponseWriter, *http.Request) {}))
	p = g.start(spec).(*process)
	wait(t, "begun", p.Begun())
	p.Withdraw()
	p.Proceed()
	wait(t, "ended", p.Ended())
	done := must.Get(p.Outcome())(t)
	check.Equal(t, done.Result, "ok", "it ended as %+v", done)
}

// moody is a server that does with each request, and with connections that have none, whatever it likes.
type moody struct {
	mu     sync.Mutex
	seen   map[string]int  // by claim
	wholes map[string]bool // claims whose answer was sent to its end
}

func (m *moody) serve(c net.Conn) {
	if rand.N(100) == 0 {
		return // before it has read anything
	}
	r := bufio.NewReader(c)
	for again := true; again; again = rand.N(8) > 0 {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		claim := request.Header.Get("Jobd-Claim")
		answer := plain([]string{"200 OK", "500 No", "429 Later", "404 No"}[rand.N(4)],
			[]string{"", "Jobd-Claim: " + claim + "\r\n"}[rand.N(2)], strings.Repeat("x", rand.N(3000)))
		cut := len(answer)
		if rand.N(3) == 0 {
			cut = rand.N(len(answer))
		}
		m.mu.Lock()
		m.seen[claim]++
		m.wholes[claim] = cut == len(answer)
		m.mu.Unlock()
		if _, err := io.WriteString(c, answer[:cut]); err != nil || cut < len(answer) {
			if rand.N(2) == 0 {
				_ = c.(*net.TCPConn).SetLinger(0)
			}
			return
		}
	}
}

// awaitAble waits until the service can be reached again.
func (f *fixture) awaitAble() {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for f.standing().Unready != "" {
		<-again.C
	}
}

// No request is sent twice, one that was not started never came, and one whose outcome is known had a
// whole answer, whatever the server does, and whenever somebody cancels.
func TestNoRequestIsSentTwiceWhateverTheServerDoes(t *testing.T) {
	t.Parallel()
	m := &moody{seen: map[string]int{}, wholes: map[string]bool{}}
	f, spec := served(t, raw(t, m.serve))
	const slots, each = 8, 100
	fates := make(chan string, slots*each)
	var all sync.WaitGroup
	for slot := range slots {
		all.Go(func() {
			for n := range each {
				mine := spec
				mine.Job, mine.Attempt = int64(slot), n
				claim := fmt.Sprintf("%d-%d-%s", slot, n, spec.Token)
				p := f.start(mine)
				if rand.N(10) == 0 {
					_ = p.Signal(int(unix.SIGTERM)) // it may have ended
				}
				wait(t, "begun", p.Begun())
				p.Proceed()
				if rand.N(10) == 0 {
					_ = p.Signal(int(unix.SIGKILL))
				}
				wait(t, "ended", p.Ended())
				done, err := p.Outcome()
				m.mu.Lock()
				seen, whole := m.seen[claim], m.wholes[claim]
				m.mu.Unlock()
				switch {
				case refused(err) != nil:
					if fates <- "not started"; seen > 0 {
						t.Errorf("%s was not started (%v), and came", claim, err)
					}
					f.awaitAble()
				case errors.Is(err, jobexec.ErrOutcomeUnknown):
					fates <- "unknown"
				case done.Signal != "":
					if fates <- "cancelled"; seen > 0 {
						t.Errorf("%s was cancelled before it was sent, and came", claim)
					}
				default:
					if fates <- done.Result; seen != 1 || !whole {
						t.Errorf("%s ended as %.200v, came %d times, and had a whole answer: %t", claim, done, seen, whole)
					}
				}
			}
		})
	}
	all.Wait()
	close(fates)
	counts := map[string]int{}
	for fate := range fates {
		counts[fate]++
	}
	for claim, n := range m.seen {
		check.Equal(t, n, 1, "%s came … times", claim)
	}
	if counts["ok"] == 0 || counts["fail"] == 0 || counts["unknown"] == 0 {
		t.Errorf("the server was too much of one mind: %v", counts)
	}
	t.Log(counts)
}

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
	check.Equal(t, <-news, (jobexec.News{Job: 7, Token: "@abcdefghi", Attempt: 2}), "of its begin was told")
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

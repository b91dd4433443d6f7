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
	"syscall"
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
		p := f.sent(specOf(jobexec.Service{Mode: jobexec.ModeHTTP, URL: url}))
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
		done, err := f.outcome(p)
		want := "it was cancelled by " + name + " while the service had its request: its outcome is unknown"
		if !errors.Is(err, jobexec.ErrOutcomeUnknown) || err.Error() != want || done.Elapsed <= 0 {
			t.Errorf("it ended as %+v, %v", done, err)
		}
		check.ErrorIs(t, p.Signal(int(signal)), os.ErrProcessDone, "%s after its end", name)
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
		want := "the service did not answer within its timeout of 100ms: its outcome is unknown"
		if !errors.Is(err, jobexec.ErrOutcomeUnknown) || err.Error() != want || done.Elapsed < 100_000 {
			t.Errorf("%s: it ended as %+v, %v", name, done, err)
		}
	}
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
				done, err := f.outcome(p)
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

// A request that is cancelled before anything was written is not sent, also where it may be sent by then.
func TestARequestThatIsCancelledBeforeItIsSentWasNeverSent(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	f, spec := served(t, serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	for n := range 50 {
		p := f.start(spec)
		wait(t, "begun", p.Begun())
		check.Do(t, p.Signal(int(unix.SIGTERM)))
		if n%2 == 0 {
			p.Proceed()
		}
		done, err := f.outcome(p)
		if err != nil || done.Result != "fail" || done.Signal != "SIGTERM" || done.Code != nil ||
			done.Reason != "it was cancelled before its request was sent" || requests.Load() != 0 {
			t.Fatalf("it ended as %+v, %v, after %d requests", done, err, requests.Load())
		}
	}
	if _, err := f.run(spec); err != nil || requests.Load() != 1 {
		t.Errorf("one that was not cancelled was %d requests, %v", requests.Load(), err)
	}
}

// dials is a protocol that makes connections as a test likes.
type dials struct {
	httpService
	how func(context.Context) error
}

func (d dials) dial(ctx context.Context) (*connection, error) { return nil, d.how(ctx) }

// A job ends without its connection: it was cancelled, or taken back, or the connection took too long, or this
// host lacks something. Of the service only the third says anything.
func TestAJobEndsWhileItConnects(t *testing.T) {
	t.Parallel()
	forEver := func(ctx context.Context) error { <-ctx.Done(); return fmt.Errorf("dial: %w", ctx.Err()) }
	lacking := func(err error) func(context.Context) error {
		return func(context.Context) error { return &net.OpError{Op: "dial", Err: err} }
	}
	for name, c := range map[string]struct {
		how         func(context.Context) error
		limit       time.Duration
		do          func(p *process)
		signal, why string
		able        bool
	}{
		"cancelled":    {forEver, time.Hour, func(p *process) { _ = p.Signal(int(unix.SIGKILL)) }, "SIGKILL", "", true},
		"taken back":   {forEver, time.Hour, (*process).Withdraw, "", "it was taken back while it waited for its connection", true},
		"too long":     {forEver, time.Millisecond, nil, "", "deadline exceeded", false},
		"refused":      {lacking(syscall.ECONNREFUSED), 0, nil, "", "connection refused", false},
		"unreachable":  {lacking(syscall.EHOSTUNREACH), 0, nil, "", "no route to host", false},
		"no file":      {lacking(syscall.EMFILE), 0, nil, "", "too many open files", true},
		"a full queue": {lacking(syscall.EAGAIN), 0, nil, "", "resource temporarily unavailable", true}, // of a unix socket
		"no port":      {lacking(syscall.EADDRNOTAVAIL), 0, nil, "", "cannot assign requested address", true},
		"no memory":    {lacking(syscall.ENOBUFS), 0, nil, "", "no buffer space available", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			of := jobexec.Service{Mode: jobexec.ModeHTTP, URL: "http://198.51.100.1/", Dial: c.limit}
			s := newService("mail", of, &dials{how: c.how}, f.report)
			defer s.close()
			f.services["mail"] = s
			p := f.start(specOf(of)).(*process)
			if c.do != nil {
				c.do(p)
			}
			done, err := f.outcome(p)
			if c.why == "" {
				check.Do(t, err)
			} else if refused(err) == nil || refused(err).Short != c.able || !strings.Contains(err.Error(), c.why) {
				t.Errorf("it ended with %v", err)
			}
			check.Equal(t, done.Signal, c.signal, "its signal is")
			check.Equal(t, p.Started().Known(), false, "it counts as started")
			check.Equal(t, f.standing().Unready == "", c.able, "its service is able")
		})
	}
	f, spec := served(t, serve(t, func(http.ResponseWriter, *http.Request) {}))
	p := f.start(spec).(*process)
	wait(t, "begun", p.Begun())
	p.Withdraw() // which comes too late
	p.Proceed()
	done := must.Get(f.outcome(p))(t)
	check.Equal(t, done.Result, "ok", "it ended as %+v", done)
}

package request

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
)

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
		if n != 1 {
			t.Errorf("%s came %d times", claim, n)
		}
	}
	if counts["ok"] == 0 || counts["fail"] == 0 || counts["unknown"] == 0 {
		t.Errorf("the server was too much of one mind: %v", counts)
	}
	t.Log(counts)
}

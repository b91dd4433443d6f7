package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// A daemon that is not there, hangs, or does not know the password.
func TestClientsTellWhatIsWrong(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, _ int, l language) {
		told := l.call(daemon("127.0.0.1:1", true, ""), "poke", "mail")
		if !told.failed(l, "unreachable") || !strings.Contains(told.text, "jobd-master at 127.0.0.1:1 can't be reached: ") ||
			!strings.Contains(strings.ToLower(told.text), "refused") {
			t.Errorf("%s: nobody listens: %v", l.name, told)
		}
	})
	// One each: wrong passwords that come from one address are answered ever later.
	masters := map[string]*harness.Daemon{}
	for _, l := range languages(t) {
		masters[l.name] = harness.StartMaster(t, harness.Settings{"password": password})
	}
	everywhere(t, func(t *testing.T, _ int, l language) {
		d := masters[l.name]
		if told := l.call(daemon(d.Addr, true, "another"), "status"); !told.failed(l, "invalid-password") || !strings.Contains(told.text, "refuses status: invalid password") {
			t.Errorf("%s: wrong password: %v", l.name, told)
		}
		if told := l.call(daemon(d.Addr, true, password), "poke", "nobody's"); told.code != "" {
			t.Errorf("%s: poke of a target that nobody serves: %v", l.name, told)
		}
		if told := l.call(daemon(d.Addr, true, password), "run", "7:nobody's"); told.jobs()[7] != "error worker serving target 'nobody's' not found" {
			t.Errorf("%s: run for a target that nobody serves: %v", l.name, told)
		}
		if told := l.call(daemon(d.Addr, false, password), "poke", "a"); !told.failed(l, "unknown-request") {
			t.Errorf("%s: a master that is taken for a worker: %v", l.name, told)
		}
	})
}

func TestClientsAndAMasterThatHangs(t *testing.T) {
	t.Parallel()
	master := harness.StartMaster(t)
	master.Signal(t, syscall.SIGSTOP)
	everywhere(t, func(t *testing.T, _ int, l language) {
		told := l.call(daemon(master.Addr, true, "").with(settings{"JOBCTL_TIMEOUT": "3"}), "status")
		if !told.failed(l, "timeout") {
			t.Errorf("%s: %v", l.name, told)
		}
	})
	master.Signal(t, syscall.SIGCONT)
	everywhere(t, func(t *testing.T, _ int, l language) {
		if told := l.call(daemon(master.Addr, true, ""), "status"); told.code != "" {
			t.Errorf("%s: it goes on: %v", l.name, told)
		}
	})
}

// What passes comes in single bytes at first, and in odd pieces later.
func TestClientsReadFramesInPieces(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	through := inPieces(t, s.master.Addr)
	everywhere(t, func(t *testing.T, n int, l language) {
		words, large := int64(100+n), int64(200+n)
		if err := s.insert(words, "words"); err != nil {
			t.Error(err)
		}
		if err := s.insert(large, "big"); err != nil {
			t.Error(err)
		}
		told := l.call(daemon(through, true, password), "run", fmt.Sprintf("%d:words", words), fmt.Sprintf("%d:big", large))
		got, want := told.jobs(), "ok 0 null Grüße \t\"an\" \\ 😀\n|to stderr\n"
		if got[words] != want || len(got[large]) != len("ok 0 null |")+big {
			t.Errorf("%s: %q and %d bytes, want %q and %d: %v", l.name, got[words], len(got[large]), want, len("ok 0 null |")+big, told)
		}
	})
}

// inPieces hands on what it gets to a daemon and back, in pieces.
func inPieces(t *testing.T, addr string) (through string) {
	t.Helper()
	return proxy(t, addr, func(to io.Writer, from io.Reader) {
		sizes := slices.Concat(slices.Repeat([]int{1}, 400), []int{2, 3, 1000, 1, 65537, 4095})
		buffer := make([]byte, 1<<17)
		for i := 0; ; i++ {
			if i == len(sizes) {
				i = 400
			}
			n, err := from.Read(buffer[:sizes[i]])
			if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
				return
			}
		}
	})
}

func proxy(t *testing.T, addr string, hand func(to io.Writer, from io.Reader)) (through string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			far, err := net.Dial("tcp", addr)
			if err != nil {
				near.Close()
				continue
			}
			_ = near.(*net.TCPConn).SetNoDelay(true)
			_ = far.(*net.TCPConn).SetNoDelay(true)
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				go func() {
					defer near.Close()
					defer far.Close()
					hand(way[0], way[1])
				}()
			}
		}
	}()
	return listener.Addr().String()
}

// normal is JSON in one form, whichever order its members have and however it is written.
func normal(message string) string {
	var value any
	if err := json.Unmarshal([]byte(message), &value); err != nil {
		return message
	}
	text, _ := json.Marshal(value)
	return string(text)
}

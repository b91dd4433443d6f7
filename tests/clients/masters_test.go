package clients

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// masters is how a driver reaches one of several masters.
func masters(password string, addrs ...string) settings {
	return daemon("", true, password).with(settings{"JOBCTL_HOST": strings.Join(addrs, ","), "JOBCTL_PORT": "7081"})
}

// Of several masters the first that answers is asked: not one that is away, nor one that is stopped.
func TestClientsOfSeveralMasters(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	stopped := harness.StartMaster(t, harness.Settings{"password": password})
	stopped.Signal(t, syscall.SIGSTOP)
	defer stopped.Signal(t, syscall.SIGCONT)
	everywhere(t, func(t *testing.T, n int, l language) {
		ask := masters(password, "127.0.0.1:1", stopped.Addr, s.master.Addr)
		id := int64(100 + n)
		if err := s.insert(id, "words"); err != nil {
			t.Error(err)
		}
		if told := l.call(ask, "run", fmt.Sprintf("%d:words", id)); told.jobs()[id] != "ok 0 null Grüße \t\"an\" \\ 😀\n|to stderr\n" {
			t.Errorf("%s: run: %v", l.name, told)
		}
		if told := l.call(ask, "poke", "words"); told.code != "" {
			t.Errorf("%s: poke: %v", l.name, told)
		}
		none := masters(password, "127.0.0.1:1", "127.0.0.1:2")
		if told := l.call(none, "status"); !told.failed(l, "unreachable") {
			t.Errorf("%s: none is there: %v", l.name, told)
		}
	})
}

// A poke goes to all masters, since what one has taken is lost with it. What else one may have been asked
// no other one is asked.
func TestClientsAskOneMasterAndPokeAll(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, _ int, l language) {
		var pokes, runs atomic.Int32
		count := func(request string) {
			switch {
			case strings.Contains(request, `"poke"`):
				pokes.Add(1)
			case strings.Contains(request, `"run-manual"`):
				runs.Add(1)
			}
		}
		// It is killed while it is asked.
		lost := listenAll(t, func(p *peer, request string) {
			if request == "[2]" {
				p.send("[3]")
				request = p.receive()
			}
			count(request)
			p.conn.Close()
		})
		other := listenAll(t, func(p *peer, request string) {
			if request == "[2]" {
				p.send("[3]")
				request = p.receive()
			}
			count(request)
			p.send(`[1,{"no":1,"data":{}}]`)
		})
		if told := l.call(masters("", lost, other), "run", "1:a"); !told.failed(l, "lost") || runs.Load() != 1 {
			t.Errorf("%s: %d masters were asked to run a job: %v", l.name, runs.Load(), told)
		}
		if told := l.call(masters("", lost, other), "poke", "a"); told.code != "" || pokes.Load() != 2 {
			t.Errorf("%s: %d masters were poked: %v", l.name, pokes.Load(), told)
		}
	})
}

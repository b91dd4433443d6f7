package executors

import (
	"testing"

	"jobd/tests/harness"
)

// bootScript keeps a launcher from getting ready, in the way that is its first argument.
const bootScript = `#!/bin/sh
how=$1
shift
test -e "${0%/*}/good" && exec "$@"
case $how in
ends) echo "no application"; exit 3 ;;
hangs) echo "no application"; exec sleep 300 ;;
talks) echo hello >&4; exec sleep 300 ;;
esac
`

// unready is how launchers don't get ready, and what is said of that.
var unready = []struct{ how, why string }{
	{"ends", "it ended with exit code 3; it wrote: no application"},
	{"hangs", `it was not ready within 1s: the line "ready" on descriptor 4 did not come; it wrote: no application`},
	{"talks", `it wrote "hello" to descriptor 4, where ready is expected`},
}

// A launcher of which no process gets ready, and a service that is away, end the claims of their
// targets, and no row is used up. Other targets notice nothing. When they can, the jobs run.
func TestNothingGetsReady(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.program("boot.sh", bootScript)
	waits, why := []executor{}, map[string]string{}
	for _, e := range s.executors {
		s.insert(e, 0, "echo out", waiting)
		if e.mode != "" {
			u := unready[len(why)%len(unready)]
			s.settings = s.settings.With(harness.Terms(e.name, harness.Settings{
				"launcher": s.path("boot.sh") + " " + u.how + " " + e.words(s, "one"), "boot_timeout": "1",
			}))
			why[e.name] = u.why
		}
		if e.mode != "" || e.service {
			waits = append(waits, e)
		}
	}
	s.killServices()
	worker := s.start()
	harness.Until(t, func() string {
		standings, log := s.standings(), worker.Output()
		for _, e := range waits {
			if standings[e.name].Unready == "" {
				return e.name + " is ready"
			}
			if missing := tells(log, "target="+e.name, why[e.name]); missing != "" {
				return missing
			}
		}
		return ""
	})
	s.AwaitDone(t, s.id(s.executors[0], 0))
	for _, e := range waits { // these come meanwhile
		s.insert(e, 1, "echo out", waiting)
	}
	s.poke()
	s.AwaitCount(t, 2*len(waits), "status = 'waiting' AND attempts = 0 AND time_started = 0")
	if n := len(s.read()); n != 2 {
		t.Errorf("the jobs have written %d lines, not the two of one", n)
	}
	harness.Touch(t, s.path("good"))
	s.startServices()
	for _, e := range waits {
		for n := range 2 {
			if got, want := shown(s.AwaitDone(t, s.id(e, n))), `ok 0 - "out\n" ""`; got != want {
				t.Errorf("%s: it ended as %s, not as %s", e.name, got, want)
			}
		}
	}
	s.startedOnce()
}

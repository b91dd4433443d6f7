package host

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/store/storetest/must"
)

// A runner that stood still, as with SIGSTOP or on a host that was asleep, kills nobody for that:
// what was answered meanwhile counts, and who has not answered has his time anew.
func TestARunnerThatStoodStillKillsNobody(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answered bool // before the runner goes on
		late     time.Duration
	}{
		"the answer is there":          {true, time.Millisecond},
		"the answer is there for long": {true, time.Hour},
		"the process stood still, too": {false, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBenchWith(t, func(ps *pools) { ps.times.answer = time.Minute })
			p := pooled("pool", 1)
			at := gate(t)
			p.Argv[2] = "exec 5<>" + at + "; " + shellLoop[:len("echo ready >&4\n")] + `while read -r word id rest <&3; do
  test "$word" = quit && exit 0
  read line <&5; echo "started $id" >&4; echo out; echo "exit $id 0" >&4
done`
			b.pools(p)
			b.start(1)
			b.stands("it is asked", func(s wire.Standing) bool { return s.Busy == 1 })
			if test.answered {
				stood, goes := make(chan bool), make(chan bool)
				b.local.do(func() { close(stood); <-goes; b.late(test.late, true) })
				<-stood
				openGate(t, at)
				close(goes)
			} else {
				looked := make(chan bool)
				b.local.do(func() { b.late(test.late, false); close(looked) })
				<-looked
				openGate(t, at)
			}
			if done := b.done(1); done.Result != "ok" || string(done.Stdout.Kept) != "out\n" {
				t.Errorf("done %+v", done)
			}
		})
	}
}

// late has the deadline of the one process be over for so long, with its answer there or not.
func (b *bench) late(by time.Duration, answered bool) {
	ps := b.local.pools
	for _, k := range ps.processes {
		if answered {
			fds := []unix.PollFd{{Fd: int32(k.answers.ours), Events: unix.POLLIN}}
			if n, err := unix.Poll(fds, int(time.Minute/time.Millisecond)); n != 1 {
				panic(fmt.Sprint("no answer came: ", err))
			}
		}
		k.deadline = proc.Uptime() - int64(by)
	}
	ps.onTimer(proc.Uptime())
}

// What a process has left behind may write answers for ever, faster than they are read: nobody is
// held up by that.
func TestAnswersWithoutAnEndHoldNobodyUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.pools(pooled("pool", 1))
	path := t.TempDir() + "/pid"
	b.run(1, "DO=setsid bash -c 'echo $$ >"+path+"; exec cat /dev/zero >&4' & disown; until test -s "+path+"; do sleep 0.01; done")
	pid := must.Get(os.ReadFile(path))(t)
	stranger := must.Get(strconv.Atoi(strings.TrimSpace(string(pid))))(t)
	defer unix.Kill(stranger, unix.SIGKILL) //nolint:errcheck // it may be gone
	b.noted("which is no answer: it is not the process that said ready")
	for job := int64(2); job < 10; job++ {
		if done := b.run(job, "DO=echo out"); string(done.Stdout.Kept) != "out\n" {
			t.Errorf("done %+v", done)
		}
	}
}

package host

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
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
				b.local.pools.do(func() { close(stood); <-goes; b.late(test.late, true) })
				<-stood
				openGate(t, at)
				close(goes)
			} else {
				looked := make(chan bool)
				b.local.pools.do(func() { b.late(test.late, false); close(looked) })
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
	for _, k := range ps.kept {
		if answered {
			fds := []unix.PollFd{{Fd: int32(k.answers), Events: unix.POLLIN}}
			if n, err := unix.Poll(fds, int(time.Minute/time.Millisecond)); n != 1 {
				panic(fmt.Sprint("no answer came: ", err))
			}
		}
		k.deadline = proc.Uptime() - int64(by)
	}
	ps.onTimer()
}

// What a process has left behind may write answers for ever, faster than they are read: nobody is
// held up by that.
func TestAnswersWithoutAnEndHoldNobodyUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.pools(pooled("pool", 1))
	b.stands("it is ready", func(s wire.Standing) bool { return s.Ready == 1 })
	zero, err := unix.Open("/dev/zero", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(zero)
	b.local.pools.do(func() {
		for _, k := range b.local.pools.kept {
			if err := unix.Dup3(zero, k.answers, unix.O_CLOEXEC); err != nil {
				t.Error(err)
			}
			b.local.pools.hear(k, true)
		}
	})
	b.noted("to descriptor 4, where nothing is expected")
	if done := b.run(1, "DO=echo out"); string(done.Stdout.Kept) != "out\n" {
		t.Errorf("done %+v", done)
	}
}

package host

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/wire"
)

// loads is a launcher that says which process it is, and loads for ever.
func loads(mode, here string) wire.Pool {
	p := pooled(mode, 1)
	p.Argv, p.BootTimeout = []string{"/bin/sh", "-c", "echo $$ >" + here + "; trap '' TERM; exec sleep 3000"}, time.Hour
	return p
}

// A runner that ends does not wait until processes have loaded what nobody needs any more, however
// far they are: they end with it.
func TestProcessesThatLoadEndWithTheRunner(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fork", "pool"} {
		t.Run(mode+" that loads", func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			here := gate(t)
			b.pools(loads(mode, here))
			pid := pidIn(t, here)
			b.leave()
			b.local.pools.shutdown() // the limit of the test's time is far below that of the load
			if err := unix.Kill(pid, 0); err != unix.ESRCH {
				t.Errorf("process %d is there: %v", pid, err)
			}
		})
		t.Run(mode+" that is being started", func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := loads(mode, os.DevNull)
			b.local.pools.set([]wire.Pool{p})
			b.leave()
			b.local.pools.shutdown()
		})
	}
}

// A target that was removed and comes back begins anew: nothing that was said of it before is said
// of it now, and it waits for nothing, though a process of the one before runs a job still.
func TestATargetThatComesBackStandsAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("pool", 2)
	b.pools(p)
	b.stands("it is ready", func(s wire.Standing) bool { return s.Ready == 2 })
	at := gate(t)
	b.start(1, "DO=read line <"+at)
	b.of(1, wire.Started)
	broken := p
	broken.Argv = []string{"/bin/sh", "-c", "echo broken; exit 1"}
	b.pools(broken)
	b.stands("it fails", func(s wire.Standing) bool { return s.Failing != "" })
	b.inReactor(func(ps *pools) { ps.find("mail").delay = int64(time.Hour) })
	b.stands("it fails for long", func(s wire.Standing) bool { return s.Failing != "" })
	b.pools()
	b.until("it is gone", func() bool { return len(b.standings) == 0 })
	b.mu.Lock()
	b.standings = nil // of before
	b.standing = func(s wire.Standing) {
		if s.Failing != "" || s.Unready != "" || s.Since != 0 || s.Boots > 2 || s.Jobs != 0 || len(s.Recycled) > 0 {
			t.Errorf("standing %+v", s)
		}
	}
	b.mu.Unlock()
	b.pools(p)
	b.stands("it is ready again", func(s wire.Standing) bool { return s.Ready == 2 })
	b.mu.Lock()
	b.standing = nil
	b.mu.Unlock()
	openGate(t, at)
	b.done(1)
}

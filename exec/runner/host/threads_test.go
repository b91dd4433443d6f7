package host

import (
	"testing"
	"testing/synctest"

	"jobd/exec/runner/wire"
)

// Where file systems answer nothing, only so many threads wait for them as the runner has to spare; all
// others go on when they answer again.
func TestLooksAtFilesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pools = 5 * mostSlow
		all, answers := make(slow, mostSlow), make(chan struct{})
		looking, looked := make(chan struct{}, pools), make(chan struct{}, pools)
		for range pools {
			go func() {
				all.do(func() {
					looking <- struct{}{}
					<-answers
				})
				looked <- struct{}{}
			}()
		}
		synctest.Wait()
		if n := len(looking); n != mostSlow || len(looked) != 0 {
			t.Errorf("%d look at once, %d have ended", n, len(looked))
		}
		close(answers)
		synctest.Wait()
		if n := len(looked); n != pools {
			t.Errorf("%d have ended in the end", n)
		}
	})
}

// A launcher's files are looked at when there is room for that, and not before.
func TestALauncherIsLookedAtWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ps := &pools{slow: make(slow, mostSlow), reactor: &reactor{inbox: []func(){nil}}} // not empty, so that nobody is rung for
		for range mostSlow {
			ps.slow <- struct{}{}
		}
		p := &pool{pools: ps, def: wire.Pool{Argv: []string{"/bin/sh"}, Watch: true}}
		p.check()
		p.check() // once is enough
		synctest.Wait()
		if len(ps.reactor.inbox) != 1 {
			t.Error("it was looked at, though there was no room")
		}
		<-ps.slow
		synctest.Wait()
		if len(ps.reactor.inbox) != 2 {
			t.Errorf("it was looked at %d times", len(ps.reactor.inbox)-1)
		}
	})
}

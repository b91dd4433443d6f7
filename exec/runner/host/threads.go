package host

import (
	"runtime"
	"sync"
)

// spareThreads is how many threads the runner may need beyond one for each of Go's processors: those
// that wait in the kernel for a program to be executed, a disk, a socket, or an event. How many may do
// so at once is bounded: maxStarts, mostLoading, mostLooks, and one for each of the few loops.
const spareThreads = 22

// mostLooks is how many file systems may be waited for at once that launchers' files are on.
const mostLooks = 4

// looks bounds how many look at files at the same time.
type looks chan struct{}

func newLooks() looks { return make(looks, mostLooks) }

// do looks once there is room.
func (l looks) do(look func()) {
	l <- struct{}{}
	defer func() { <-l }()
	look()
}

// makeThreads makes the threads that the runner may need. Go makes them one by one when they are
// needed, keeps them, and ends the program where it can't make one: then a limit of processes that is
// reached by jobs would take the runner along, and all that it knows. At the start there is nothing
// that could be lost, and the worker tries again.
func makeThreads() {
	var there, ended sync.WaitGroup
	all := make(chan struct{})
	n := runtime.GOMAXPROCS(0) + spareThreads
	there.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread() // it has one of its own, which nobody else waits on
			defer runtime.UnlockOSThread()
			there.Done()
			<-all
		})
	}
	there.Wait()
	close(all)
	ended.Wait()
}

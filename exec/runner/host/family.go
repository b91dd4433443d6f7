package host

import (
	"sync"
	"syscall"
)

// family is the processes that this one knows: those that it has started and not reaped, and those
// that its kept processes have forked. It is one for the whole process, as being their parent is.
var family = kin{known: make(map[int]int)}

// kin are processes by number. A number may be there twice for a moment: a forked child that its
// parent has reaped, which is yet to be heard of, and a process of ours that has its number since.
type kin struct {
	forks sync.RWMutex // is held while a process of ours is made and not known yet

	mu    sync.Mutex
	known map[int]int
}

// fork starts a process, which is known from then on.
func (k *kin) fork(argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	k.forks.RLock()
	defer k.forks.RUnlock()
	if pid, err = syscall.ForkExec(argv[0], argv, attr); err == nil {
		k.join(pid)
	}
	return pid, err
}

func (k *kin) join(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known[pid]++
}

func (k *kin) leave(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known[pid]--; k.known[pid] <= 0 {
		delete(k.known, pid)
	}
}

func (k *kin) knows(pid int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[pid] > 0
}

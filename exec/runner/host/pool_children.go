package host

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// After each job of a pool's process the runner looks whether the job has left children behind. To
// open the kernel's list of them took a fifth of all the runner's time for a short job, so the list
// of a process stays open for as long as the process is kept. It follows the process, not the number:
// when that one has gone, there is nothing in it, whoever has its number then.

// childList is where the kernel lists the children of a process's main thread.
func childList(pid, thread int) string { return fmt.Sprintf("/proc/%d/task/%d/children", pid, thread) }

// children lists the children that the main thread of a kept process has.
func (k *kept) children() []int {
	if k.list < 0 {
		fd, err := unix.Open(childList(k.started.Pid, k.started.Pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil
		}
		k.list = fd
	}
	var text []byte
	scratch := k.pool.pools.reactor.scratch
	for {
		n, err := unix.Pread(k.list, scratch, int64(len(text)))
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return numbers(text)
		}
		text = append(text, scratch[:n]...)
	}
}

// childrenOf lists the children that a thread of a process has.
func childrenOf(pid, thread int) []int {
	text, err := os.ReadFile(childList(pid, thread))
	if err != nil {
		return nil
	}
	return numbers(text)
}

// numbers are those of a text, between blanks.
func numbers(text []byte) (found []int) {
	for field := range bytes.FieldsSeq(text) {
		if number, err := strconv.Atoi(string(field)); err == nil {
			found = append(found, number)
		}
	}
	return found
}

package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// readersNice is the priority at which folders are read: beside a worker on a busy machine a reader gets a tenth of
// what the worker does, and all that nobody else wants.
const readersNice = 10

// giveWay lowers the priority of the whole process. The kernel keeps it by thread, and a new thread has that of the one
// that started it. What can't be lowered stays as it is: reading goes on all the same.
func giveWay() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			if now, err := unix.Getpriority(unix.PRIO_PROCESS, id); err == nil && 20-now < readersNice { // as the kernel tells it
				_ = unix.Setpriority(unix.PRIO_PROCESS, id, readersNice)
			}
		}
	}
}

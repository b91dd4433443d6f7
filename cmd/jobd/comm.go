package main

import "os"

// What ps, top, ss and the kernel's log call these processes. Both are executed as /proc/self/exe, by
// which they would all be "exe". The runner's name has no jobd in it, so that pkill jobd, which ends
// the worker, does not end its runner, too.
const (
	workerComm = "jobd"
	runnerComm = "job-runner"
)

func init() {
	name := workerComm
	if len(os.Args) > 1 && os.Args[1] == runnerCommand {
		name = runnerComm
	}
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0) // the process is its own to write to until it hides from its jobs
}

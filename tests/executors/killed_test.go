package executors

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Something is killed while each executor has a job: what is known of it then is what the table
// says, none is started twice, and the next job goes well. With on_crash = requeue what is unknown
// is started again, and nothing else is.
func TestKilledWhileJobsRun(t *testing.T) {
	t.Parallel()
	for _, kill := range [][2]string{
		{theWorker, "fail"}, {theRunner, "fail"}, {theParent, "fail"}, {theSelf, "fail"}, {theHost, "fail"}, {theHost, "requeue"},
	} {
		what, policy := kill[0], kill[1]
		t.Run(what+", "+policy, func(t *testing.T) {
			t.Parallel()
			killWhileJobsRun(t, what, policy)
		})
	}
}

func killWhileJobsRun(t *testing.T, what, policy string) {
	s := newSite(t, 1, harness.Settings{"on_crash": policy})
	pids := map[string]int{}
	for _, e := range s.executors {
		if e.known[what] != nothing {
			s.insert(e, 0, `echo before; gate; test $attempt -ge 2 || echo after`, waiting)
		}
	}
	worker := s.start()
	for _, e := range s.executors {
		if e.known[what] != nothing {
			pids[e.name] = s.awaitSaid(s.id(e, 0), 1)
			s.AwaitStatus(t, s.id(e, 0), "running")
		}
	}
	struck[what](t, s, worker, pids)
	for _, e := range s.executors { // they end without the gate
		if e.known[what] == bySIG {
			s.AwaitDone(t, s.id(e, 0))
		}
	}
	s.open()
	for _, e := range s.executors {
		want := e.known[what]
		if want == nothing {
			continue
		}
		if want == unknown && policy == "requeue" {
			want = again
		}
		if got := shown(s.AwaitDone(t, s.id(e, 0))); got != want {
			t.Errorf("%s: it ended as %s, not as %s: %s", e.name, got, want, s.Row(t, s.id(e, 0)))
		}
		s.runsNext(t, e, 1)
	}
	s.startedOnce()
}

// again is a job that was started again because nobody knows how it ended; once more, if it was started at
// a service that was about to go.
const again = `ok 0 - "before\n" ""`

// struck is how things are killed.
var struck = map[string]func(t *testing.T, s *site, worker *harness.Daemon, pids map[string]int){
	theWorker: func(t *testing.T, s *site, worker *harness.Daemon, _ map[string]int) {
		worker.Kill(t)
		s.start()
	},
	theRunner: func(t *testing.T, _ *site, worker *harness.Daemon, _ map[string]int) {
		kill(t, worker.Runner(t))
	},
	theParent: func(t *testing.T, s *site, _ *harness.Daemon, pids map[string]int) {
		for _, e := range s.executors {
			if e.known[theParent] != nothing {
				kill(t, above(t, pids[e.name], e.parent))
			}
		}
	},
	theSelf: func(t *testing.T, s *site, _ *harness.Daemon, pids map[string]int) {
		for _, e := range s.executors {
			kill(t, above(t, pids[e.name], e.self))
		}
		s.killServices()
		s.startServices()
	},
	theHost: func(t *testing.T, s *site, worker *harness.Daemon, _ map[string]int) {
		worker.Crash(t) // first: else it may start a job anew at a service that is about to go
		s.killServices()
		s.startServices()
		s.start()
	},
}

// kill kills a process, and waits until it does nothing any more: a parent that is struck while it
// waits for its child may learn of the end of that first, and take it along.
func kill(t *testing.T, pid int) {
	t.Helper()
	must.Do(t, syscall.Kill(pid, syscall.SIGKILL), "process %d", pid)
	harness.Until(t, func() string {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") || strings.Contains(string(stat), ") X ") {
			return ""
		}
		return fmt.Sprintf("process %d was killed, and is there", pid)
	})
}

// above is the process so many generations above another one.
func above(t *testing.T, pid, generations int) int {
	t.Helper()
	for range generations {
		stat := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(t)
		must.Get(fmt.Sscanf(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " %s %d", new(string), &pid))(t)
	}
	return pid
}

// load has each executor always some jobs that wait.
type load struct {
	*site
	jobs int // of each executor, so far
}

// more adds jobs where there are few.
func (l *load) more() {
	l.t.Helper()
	const some = 5
	if l.Count(l.t, "status = 'waiting'") > some*len(l.executors) {
		return
	}
	for range some {
		for _, e := range l.executors {
			l.insert(e, l.jobs, "", waiting)
		}
		l.jobs++
	}
	l.poke()
}

// until keeps the load up until all executors have what is waited for.
func (l *load) until(what string, has func(e executor) bool) {
	l.t.Helper()
	harness.Until(l.t, func() string {
		l.more()
		for _, e := range l.executors {
			if !has(e) {
				return e.name + ": " + what
			}
		}
		return ""
	})
}

// ran tells which versions of launchers have run an executor's jobs.
func (s *site) ran(e executor) map[string]bool {
	ran := map[string]bool{}
	for _, line := range s.read() {
		if s.executors[line.job/ids-1].name == e.name {
			ran[line.version] = true
		}
	}
	return ran
}

// reload gives all launchers another version, in the configuration.
func (s *site) reload(version string) {
	s.t.Helper()
	for _, e := range s.executors {
		s.settings = s.settings.With(e.keys(s, version))
	}
	must.Do(s.t, os.WriteFile(s.config, []byte(s.settings.String()), 0o600))
}

// standing is what status tells of an executor.
type standing struct {
	Target, Mode, Unready  string
	Processes, Ready, Busy int
	Boots, Jobs            int64
	Old                    int
	Recycled               map[string]int64
}

// standings asks for how the executors stand, by target.
func (s *site) standings() map[string]standing {
	s.t.Helper()
	client := harness.Dial(s.t, s.settings.Addr())
	defer client.Close()
	var status struct{ Executors []standing }
	client.Ask(s.t, "status", nil).Decode(s.t, &status)
	byTarget := map[string]standing{}
	for _, e := range status.Executors {
		byTarget[e.Target] = e
	}
	return byTarget
}

// Launchers are replaced by other versions under load: by SIGHUP, by a start of the worker that
// finds another configuration, by recycle, and because a file has changed. No job is lost, and none
// is run by two versions.
func TestRenewedUnderLoad(t *testing.T) {
	t.Parallel()
	const slots = 2
	l := &load{site: newSite(t, slots, harness.Settings{"launcher_watch": "1"})}
	worker := l.start()
	l.until("version one has not run", func(e executor) bool { return l.ran(e)["one"] })
	l.reload("two")
	worker.Signal(t, syscall.SIGHUP)
	l.until("version two has not run", func(e executor) bool { return l.ran(e)["two"] })
	l.reload("three")
	worker.Signal(t, syscall.SIGTERM)
	worker.ExitCode(t)
	l.start()
	l.until("version three has not run", func(e executor) bool { return l.ran(e)["three"] })
	l.recycled("recycle", func() {
		client := harness.Dial(t, l.settings.Addr())
		defer client.Close()
		answer := client.Ask(t, "recycle", nil)
		check.Equal(t, answer.Error, "")
	})
	l.recycled("watch", func() {
		for _, e := range l.executors {
			if e.file != "" {
				l.copyLoop(e)
			}
		}
	})
	all := l.jobs * len(l.executors)
	l.AwaitCount(t, all, "status = 'done'")
	if well := l.Count(t, "result = IF(id % 4, 'fail', 'ok') AND return_code = id % 4"); well != all {
		t.Errorf("%d of %d jobs ended as they should have", well, all)
	}
	for name, most := range l.most() {
		if most > slots {
			t.Errorf("%s has had %d jobs at a time, with %d slots", name, most, slots)
		}
	}
	l.startedOnce()
}

// recycled does something that has the processes replaced which stay, and waits until they are.
func (l *load) recycled(why string, do func()) {
	l.t.Helper()
	before := l.standings()
	do()
	l.until("no process is replaced because of "+why, func(e executor) bool {
		return !e.stays || l.standings()[e.name].Recycled[why] >= before[e.name].Recycled[why]+1
	})
}

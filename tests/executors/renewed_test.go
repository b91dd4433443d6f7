package executors

import (
	"os"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

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
	if err := os.WriteFile(s.config, []byte(s.settings.String()), 0o600); err != nil {
		s.t.Fatal(err)
	}
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
		if answer := client.Ask(t, "recycle", nil); answer.Error != "" {
			t.Error(answer.Error)
		}
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

package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	tests := []struct {
		name   string
		script string
		result string
		code   *int
		signal string
	}{
		{"success", "exit 0", "ok", code(0), ""},
		{"failure", "exit 7", "fail", code(7), ""},
		{"the highest code", "exit 255", "fail", code(255), ""},
		{"pitfall 11: killed, so there is no code", "kill -TERM $$", "fail", nil, "SIGTERM"},
		{"pitfall 12: a signal without a name", "kill -49 $$", "fail", nil, "SIG49"},
		{"pitfall 32: the kernel keeps eight bits of a code", "exec perl -e 'exit 300'", "fail", code(44), ""},
		{"it leaves a process behind that has its output", "sleep 300 & exit 7", "fail", code(7), ""},
		{"it leaves a process behind", "sleep 300 >/dev/null 2>&1 & exit 7", "fail", code(7), ""},
		{"pitfall 12: a signal whose name is long", "kill -34 $$", "fail", nil, "SIG34"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := launch(t, newTestLocal(t), script(test.script))
			done := p.wait()
			gone(t, p.started.Pid)
			if done.Result != test.result || done.Signal != test.signal || fmt.Sprint(deref(done.Code)) != fmt.Sprint(deref(test.code)) {
				t.Errorf("done %s code %v signal %q", done.Result, deref(done.Code), done.Signal)
			}
		})
	}
}

func deref(n *int) any {
	if n == nil {
		return nil
	}
	return *n
}

func TestOutputIsKeptUpToTheLimit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		script string
		limit  int
		kept   string
		size   int64
	}{
		{"nothing", "true", 100, "", 0},
		{"below the limit", "printf abc", 100, "abc", 3},
		{"at the limit", "printf abc", 3, "abc", 3},
		{"above the limit", "printf abcdef", 3, "abc", 6},
		{"no limit to speak of", "printf abcdef", 1, "a", 6},
		{"bytes that are no text", `printf 'a\000\377b'`, 100, "a\x00\xffb", 4},
		{"far above the limit", "head -c 20000000 /dev/zero", 5, "\x00\x00\x00\x00\x00", 20000000},
		{"nothing is kept", "head -c 3145729 /dev/zero", 0, "", 3<<20 + 1},
		{"more than one read", "head -c 5242887 /dev/zero", 1<<20 + 1, strings.Repeat("\x00", 1<<20+1), 5<<20 + 7},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			spec := script(test.script + "; exec >&2; " + test.script)
			spec.maxOutput = test.limit
			done := run(t, newTestLocal(t), spec)
			for _, output := range []journal.Output{done.Stdout, done.Stderr} {
				if string(output.Kept) != test.kept || output.Size != test.size {
					t.Errorf("kept %.60q of %d bytes, want %.60q of %d", output.Kept, output.Size, test.kept, test.size)
				}
				if cap(output.Kept) > max(test.limit, 0) {
					t.Errorf("the buffer holds %d bytes, the limit is %d", cap(output.Kept), test.limit)
				}
			}
		})
	}
}

// A grandchild that keeps the pipe open must not hold up the job (pitfall 28).
func TestPitfall28AGrandchildThatKeepsTheOutputOpen(t *testing.T) {
	t.Parallel()
	local := newLocalWith(t, func(l *reactor) { l.delay = 50 * time.Millisecond })
	pidFile := filepath.Join(t.TempDir(), "pid")
	done := run(t, local, script("sleep 300 & echo $! >"+pidFile+"; echo out; exit 3"))
	killFromFile(t, pidFile)
	if *done.Code != 3 || string(done.Stdout.Kept) != "out\n" {
		t.Errorf("done %+v", done)
	}
	check.Equal(t, done.Reason, "a process it left behind kept its output open for more than 50ms", "reason")
}

func killFromFile(t *testing.T, path string) {
	t.Helper()
	pid := pidIn(t, path)
	check.Do(t, unix.Kill(pid, unix.SIGKILL), "kill %d", pid)
}

func TestSignalsGoToTheWholeGroup(t *testing.T) {
	t.Parallel()
	// The shell waits for its child; only a signal to both ends both at once.
	fifo := gate(t)
	p := launch(t, newTestLocal(t), script("(echo up >"+fifo+"; exec sleep 300); true"))
	if _, err := os.ReadFile(fifo); err != nil { // returns when the grandchild is up
		t.Fatal(err)
	}
	check.Do(t, p.signal(0), "probe")
	check.Do(t, p.signal(15), "signal")
	done := p.wait()
	if done.Signal != "SIGTERM" || done.Reason != "" {
		t.Errorf("done %+v", done)
	}
	if err := p.signal(15); err == nil {
		t.Error("a process that is gone was signalled")
	}
}

// What jobd has open or changed for itself is not a job's business (pitfall 33).
func TestPitfall33WhatAJobInherits(t *testing.T) {
	t.Parallel()
	leak := must.Get(os.Open("/"))(t)
	defer leak.Close()
	spec := script("ls /proc/self/fd | tr '\\n' ' '; echo; readlink /proc/self/fd/0; grep -E 'SigBlk|SigIgn' /proc/self/status; ulimit -n; cut -d ' ' -f 5 /proc/$$/stat")
	p := launch(t, newTestLocal(t), spec)
	done := p.wait()
	lines := strings.Split(strings.TrimSpace(string(done.Stdout.Kept)), "\n")
	plain := must.Get(exec.Command("sh", "-c", "ulimit -n").Output())(t)
	status := must.Get(os.ReadFile("/proc/self/status"))(t)
	ignored := regexp.MustCompile(`(?m)^SigIgn:.*$`).FindString(string(status))
	want := []string{
		"0 1 2 3 ", // 3 is the folder that ls reads
		"/dev/null",
		"SigBlk:\t0000000000000000",
		ignored, // what our own parent has ignored for all below it, and nothing that we have
		strings.TrimSpace(string(plain)),
		strconv.Itoa(p.started.Pid),
	}
	check.Equal(t, strings.Join(lines, "\n"), strings.Join(want, "\n"), "a job sees")
}

func TestWhatCannotBeStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain, busy := filepath.Join(dir, "plain"), filepath.Join(dir, "busy")
	must.Do(t, os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600))
	must.Do(t, os.WriteFile(busy, []byte("#!/bin/sh\n"), 0o700))
	writer := must.Get(os.OpenFile(busy, os.O_WRONLY, 0))(t)
	t.Cleanup(func() { writer.Close() })
	long := "/" + strings.Repeat("x", 5000)
	tests := []struct {
		name, command, dir, want string
		short                    bool
	}{
		{"no such command", dir + "/none", "", "start " + dir + "/none: no such file or directory", false},
		{"not executable", plain, "", "start " + plain + ": permission denied: it is not executable for this account, or is on a noexec mount", false},
		{"a name that is too long", long, "", "start " + long + ": file name too long", false},
		{"no such working folder", "/bin/true", dir + "/none", "start /bin/true: working folder: stat " + dir + "/none: no such file or directory", false},
		{"being written", busy, "", "start " + busy + ": text file busy", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, refused := try(newTestLocal(t), spec{argv: []string{test.command}, dir: test.dir, maxOutput: 10})
			if refused.text != test.want || (refused.class == wire.Short) != test.short {
				t.Errorf("refusal %+v, want %s, short %t", refused, test.want, test.short)
			}
		})
	}
}

// descriptors is how many this process has.
func descriptors(t *testing.T) int {
	t.Helper()
	entries := must.Get(os.ReadDir("/proc/self/fd"))(t)
	return len(entries)
}

// threads is how many threads this process has.
func threads(t *testing.T) int {
	t.Helper()
	entries := must.Get(os.ReadDir("/proc/self/task"))(t)
	return len(entries)
}

// Not parallel: it counts the process's goroutines, threads and descriptors.
func TestAThousandRunningJobsHoldTheirDescriptorsOnly(t *testing.T) {
	local := newTestLocal(t)
	goroutines, before, open := runtime.NumGoroutine(), threads(t), descriptors(t)
	const jobs = 1000
	var processes []watched
	for range jobs {
		what := spec{argv: []string{"/bin/sleep", "300"}, maxOutput: 1 << 20, limit: wire.Limit{Timeout: time.Hour}}
		processes = append(processes, launch(t, local, what))
	}
	for _, p := range processes {
		<-p.isBegun
	}
	if more := runtime.NumGoroutine() - goroutines; more > 0 {
		t.Errorf("%d running jobs take %d goroutines", jobs, more)
	}
	if more := threads(t) - before; more > 10 {
		t.Errorf("%d running jobs take %d threads", jobs, more)
	}
	check.Equal(t, descriptors(t)-open, 3*jobs, "%d running jobs take … descriptors", jobs)
	for _, p := range processes {
		check.Do(t, p.signal(9))
	}
	for _, p := range processes {
		done := p.wait()
		check.Equal(t, done.Signal, "SIGKILL", "done %+v", done)
	}
	check.Equal(t, descriptors(t)-open, 0, "descriptors are left open")
}

// Not parallel: it takes the process's descriptors away.
func TestWithoutDescriptorsAStartIsRefused(t *testing.T) {
	local := newTestLocal(t)
	var limit unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	open := descriptors(t)
	lowest, err := unix.Dup(0) // the first number that is free
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(lowest)
	for more := range 8 { // each step of a start finds none left in turn
		low := unix.Rlimit{Cur: uint64(lowest + more), Max: limit.Max}
		must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
		local.watcher.(*witness).refusal = refusedError{}
		p, refusal := try(local, script("exit 0"))
		must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		switch {
		case refusal.text != "" && !strings.HasSuffix(refusal.text, "too many open files"):
			t.Errorf("with %d descriptors: %s", more, refusal.text)
		case refusal.text == "" && more < 5:
			t.Errorf("with %d descriptors process %d was started", more, p.started.Pid)
		case refusal.text == "":
			p.wait()
		}
	}
	check.Equal(t, descriptors(t)-open, 0, "descriptors are left open")
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
		check.Equal(t, len(ps.reactor.inbox), 1, "it was looked at, though there was no room")
		<-ps.slow
		synctest.Wait()
		if len(ps.reactor.inbox) != 2 {
			t.Errorf("it was looked at %d times", len(ps.reactor.inbox)-1)
		}
	})
}

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Crash kills the worker, its runner and all their jobs at the same moment, as a
// host that loses power would.
func (d *Daemon) Crash(t testing.TB) {
	t.Helper()
	if !d.Running() {
		t.Fatalf("%s has ended by itself", d.program)
	}
	d.killAll(t)
}

// killAll is Crash for a process that may be about to end by itself.
func (d *Daemon) killAll(t testing.TB) {
	t.Helper()
	below := freeze(t, d.Pid)
	_ = d.process.Process.Kill()
	<-d.exited
	for _, pid := range below {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
	}
	Until(t, func() string {
		for _, pid := range below {
			if state := threads(pid); strings.Trim(state, "ZX") != "" {
				return fmt.Sprintf("process %d was killed, and is there: %s", pid, state)
			}
		}
		return ""
	})
}

// freeze makes a process and all below it stand still, and gives those below it: none of them
// starts another one, which nobody would know of.
func freeze(t testing.TB, top int) (below []int) {
	t.Helper()
	_ = syscall.Kill(top, syscall.SIGSTOP) // it may have ended, as any of them
	Until(t, func() string {
		before := below
		below = descendants(t, top)
		for _, pid := range below {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		for _, pid := range append(below, top) {
			// One that waits for the kernel has just started a process, which is known by then, or
			// stops when it is back.
			if state := threads(pid); strings.Trim(state, "TtDZX") != "" {
				return fmt.Sprintf("process %d was stopped, and goes on: %s", pid, state)
			}
		}
		if fmt.Sprint(slices.Sorted(slices.Values(before))) != fmt.Sprint(slices.Sorted(slices.Values(below))) {
			return "there are other processes than before"
		}
		return ""
	})
	return below
}

// threads are the letters by which the kernel tells what a process's threads do; none where it is
// gone.
func threads(pid int) (states string) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range files {
		if stat, err := os.ReadFile(file); err == nil { // it may have ended
			states += strings.TrimSpace(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[:1]
		}
	}
	return states
}

// Runner is the process id of the worker's runner.
func (d *Daemon) Runner(t testing.TB) int {
	t.Helper()
	for pid, parent := range parents(t) {
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if parent == d.Pid && err == nil && strings.Contains(string(command), "\x00runner\x00") {
			return pid
		}
	}
	t.Fatalf("%s (pid %d) has no runner", d.program, d.Pid)
	return 0
}

// RunnerOf is the process id of the runner that serves a journal's folder, 0 where there is none.
func RunnerOf(journalDir string) int {
	folders, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range folders {
		dir, err := os.Readlink(link)
		if err != nil || dir != journalDir {
			continue
		}
		words, err := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		if err != nil || !strings.HasSuffix(string(words), "\x00runner\x00") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
			return pid
		}
	}
	return 0
}

// Proc is a file of the process in /proc.
func (d *Daemon) Proc(name string) string { return filepath.Join("/proc", strconv.Itoa(d.Pid), name) }

// MemoryPeak is the most resident memory that a process ever had, in bytes.
func MemoryPeak(t testing.TB, pid int) int64 { return memory(t, pid, "VmHWM:") }

// Memory is a process's resident memory, in bytes.
func Memory(t testing.TB, pid int) int64 { return memory(t, pid, "VmRSS:") }

// MemoryOwnPeak is the same without what the kernel has read of files, such as the program. Those pages are not
// the process's, and how many of them are there depends on who else runs.
func MemoryOwnPeak(t testing.TB, pid int) int64 { return MemoryPeak(t, pid) - MemoryOfFiles(t, pid) }

// MemoryOwn is what of it is the process's own, MemoryOfFiles what the kernel has read of files, such as
// the program: all who run that share it.
func MemoryOwn(t testing.TB, pid int) int64     { return memory(t, pid, "RssAnon:") }
func MemoryOfFiles(t testing.TB, pid int) int64 { return memory(t, pid, "RssFile:") }

func memory(t testing.TB, pid int, field string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatalf("memory of process %d: %v", pid, err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, field); found {
			var kib int64
			if _, err := fmt.Sscanf(rest, "%d kB", &kib); err != nil {
				t.Fatalf("memory of process %d: %q: %v", pid, line, err)
			}
			return kib << 10
		}
	}
	t.Fatalf("memory of process %d: no %s in its status", pid, field)
	return 0
}

// descendants are the processes below one, those nearest to it first.
func descendants(t testing.TB, top int) []int {
	t.Helper()
	parent := parents(t)
	below := []int{top}
	for i := 0; i < len(below); i++ {
		for pid, ppid := range parent {
			if ppid == below[i] {
				below = append(below, pid)
			}
		}
	}
	return below[1:]
}

// parents gives every process's parent.
func parents(t testing.TB) map[int]int {
	t.Helper()
	files := must.Get(filepath.Glob("/proc/[0-9]*/stat"))(t)
	parents := map[int]int{}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		// pid (name) state parent …; the name may hold anything, also a parenthesis.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		pid, pidErr := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, parentErr := strconv.Atoi(fields[1])
		if pidErr != nil || parentErr != nil {
			t.Fatalf("%s: %q", file, stat)
		}
		parents[pid] = parent
	}
	return parents
}

// NeedMachines skips a test that gives itself file systems and processes of its own, where this
// account may not, as in a container without rights. In CI that is an error.
func NeedMachines(t testing.TB) {
	t.Helper()
	out, err := exec.Command("unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt").CombinedOutput()
	switch {
	case err == nil && os.Geteuid() == 0:
	case os.Getenv("CI") != "":
		t.Fatalf("this account may not mount: %v: %s", err, out)
	default:
		t.Skipf("this account may not mount: %v: %s", err, out)
	}
}

// SmallDisk makes a folder a disk of its own, of a size as mount(8) takes it, until the test ends.
func SmallDisk(t testing.TB, dir, size string) {
	t.Helper()
	must.Do(t, os.MkdirAll(dir, 0o700))
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("only root can mount a small disk; the journal's own tests of a full disk stand in")
	}
	must.Do(t, err, "mount a disk of %s", size)
	t.Cleanup(func() { check.Do(t, syscall.Unmount(dir, syscall.MNT_DETACH), "unmount the small disk") })
}

// Script writes an executable shell script in a folder of its own and gives its path.
func Script(t testing.TB, body string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "launch.sh")
	// A process that is forked meanwhile would have the file open for writing for a moment, and a
	// file that somebody has open for writing can't be executed (ETXTBSY).
	syscall.ForkLock.RLock()
	err := os.WriteFile(file, []byte("#!/bin/sh\n"+body+"\n"), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatalf("write the launcher: %v", err)
	}
	return file
}

// Touch creates an empty file: how tests tell a waiting launcher to go on.
func Touch(t testing.TB, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatalf("touch: %v", err)
	}
}

// Patience is how long a condition may take to come true: far longer than it ever
// should, so that only a real fault fails a test on a slow machine that has much else to do.
const Patience = 2 * time.Minute

// Bounded is a context for a command that a test waits for: one that hangs is killed.
func Bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	t.Cleanup(cancel)
	return ctx
}

// interval is how often a condition is tried.
const interval = 10 * time.Millisecond

// Until tries condition until it gives "" and fails the test when Patience is
// over; what condition gives otherwise says what is still missing.
func Until(t testing.TB, condition func() string) {
	t.Helper()
	if missing := until(Patience, condition); missing != "" {
		t.Fatalf("waited %s: %s", Patience, missing)
	}
}

func until(patience time.Duration, condition func() string) string {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		missing := condition()
		if missing == "" {
			return ""
		}
		select {
		case <-again.C:
		case <-deadline.C:
			return missing
		}
	}
}

// Top is the repository's folder, above the one in which a test or a benchmark runs. The compiler
// can't tell where that is: with -trimpath it keeps no paths of the machine.
func Top() string { return top() }

var top = sync.OnceValue(func() string {
	started, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for folder := started; ; folder = filepath.Dir(folder) {
		content, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && slices.Contains(strings.Split(string(content), "\n"), "module jobd") {
			return folder
		}
		if folder == filepath.Dir(folder) {
			panic(started + " is in no checkout of jobd")
		}
	}
})

// Program builds the programs, once a process and one process at a time, and gives the path of one.
func Program(t testing.TB, name string) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatalf("make build: %v", err)
	}
	return filepath.Join(Top(), "bin", name)
}

// built is a variable by which make says that it has built all programs.
const built = "JOBD_TEST_BUILT"

var build = sync.OnceValue(func() error {
	if os.Getenv(built) != "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(Top(), "bin"), 0o755); err != nil {
		return err
	}
	lock, err := os.Create(filepath.Join(Top(), "bin", ".lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	makeBuild := exec.Command("make", "-s", "build")
	makeBuild.Dir = Top()
	makeBuild.Stderr = os.Stderr
	return makeBuild.Run()
})

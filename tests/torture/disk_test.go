package torture

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"jobd/exec/runner/proctest"
	"jobd/journal"
	"jobd/journal/replay"
	"jobd/store/storetest/check"
	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// diskSize leaves room for the work, and is filled in a moment.
const diskSize = "size=128m"

// smallDisk gives a worker a file system of its own for the journal, which can be filled.
func smallDisk(t *testing.T, s *site) {
	t.Helper()
	dir := s.settings["journal_dir"]
	must.Do(t, os.MkdirAll(dir, 0o700))
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, diskSize+",mode=0700")
	if errors.Is(err, syscall.EPERM) {
		t.Skip("only root can mount a small disk; the journal's own tests of a full disk stand in")
	}
	if err != nil {
		t.Fatalf("mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		check.Do(t, syscall.Unmount(dir, syscall.MNT_DETACH), "unmount the small disk")
	})
}

// fill takes all room on the worker's disk, and gives what frees it.
func (s *site) fill(t *testing.T) (free func()) {
	t.Helper()
	path := filepath.Join(s.settings["journal_dir"], "ballast")
	ballast, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ballast.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = ballast.Write(make([]byte, size))
		}
		must.ErrorIs(t, err, syscall.ENOSPC)
	}
	return func() {
		check.Do(t, os.Remove(path))
	}
}

// The worker is killed while its disk is full. A start without room says what is wrong, and with room
// takes everything up.
func TestKilledWhileTheDiskIsFull(t *testing.T) {
	t.Parallel()
	s := newSite(t, shortJob, map[string]int{"a": 8}, polling)
	smallDisk(t, s)
	s.insert(t, 200, "a")
	worker, _ := s.start(t)
	awaitProgress(t, s, 20)
	free := s.fill(t)
	<-atRandom(300 * time.Millisecond)
	worker.Kill(t)
	early := s.launch(t, "jobd")
	<-atRandom(300 * time.Millisecond)
	_ = syscall.Kill(early.Pid, syscall.SIGKILL) // it may have ended by itself
	if code := early.ExitCode(t); code != -1 && !strings.Contains(early.Output(), "no space left") {
		t.Errorf("the start on a full disk ended with %d:\n%s", code, early.Output())
	}
	free()
	_, took := s.start(t)
	s.awaitDone(t)
	found := s.audit(t)
	if found.unknown > 8 {
		t.Errorf("%d outcomes are unknown, with 8 slots", found.unknown)
	}
	suite.matrix.add(line{fault: "9 killed while the disk is full", runs: 1, tally: found, up: []time.Duration{took}})
}

// An fsync of the worker fails, as on a disk that breaks: the system call itself, which strace answers with EIO. What is on
// disk is not known then, so the worker says which file it is and ends; the next start goes by what it finds.
func TestFsyncFails(t *testing.T) {
	t.Parallel()
	s := newSite(t, shortJob, map[string]int{"a": 4}, polling)
	failures := size(4, 100)
	for range failures {
		worker, _ := s.start(t)
		failed := failFsync(t, worker, 1+rand.IntN(5))
		if !await(func() bool {
			if worker.Running() && s.Count(t, "status = 'waiting'") == 0 {
				s.insert(t, 20, "a")
			}
			return !worker.Running()
		}) {
			t.Fatalf("the worker does not end:\n%s", worker.Output())
		}
		file := failed()
		if code := worker.ExitCode(t); code <= 0 {
			t.Errorf("the worker ended with %d", code)
		}
		if !saysFailure(worker.Output(), file) {
			t.Errorf("the worker does not say that %s failed:\n%s", file, worker.Output())
		}
	}
	s.start(t)
	s.awaitDone(t)
	suite.matrix.add(line{fault: "9 an fsync fails", runs: failures, tally: s.known(t)})
}

// saysFailure tells whether what a worker said at its end names a file and what happened to it. The log of a
// database goes by the name of the database.
func saysFailure(output, file string) bool {
	name := strings.TrimSuffix(file, "-wal")
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "jobd: ") && strings.Contains(line, name) &&
			(strings.Contains(line, "disk I/O error") || strings.Contains(line, "input/output error")) {
			return true
		}
	}
	return false
}

// injected is the line in which strace tells of a failure that it made.
var injected = regexp.MustCompile(`(?:fsync|fdatasync)\(\d+<([^>]+)>.*INJECTED`)

// failFsync makes the nth fsync of each thread fail, from now on; failed gives the file of the first, when the worker has ended.
func failFsync(t *testing.T, worker *harness.Daemon, nth int) (failed func() string) {
	t.Helper()
	must.Get(exec.LookPath("strace"))(t)
	log := filepath.Join(t.TempDir(), "strace")
	strace := exec.Command("strace", "-f", "-y", "-p", fmt.Sprint(worker.Pid), "-o", log,
		"-e", "trace=fsync,fdatasync", "-e", fmt.Sprintf("inject=fsync,fdatasync:error=EIO:when=%d", nth))
	says := must.Get(strace.StderrPipe())(t)
	must.Do(t, strace.Start())
	attached, err := bufio.NewReader(says).ReadString('\n')
	if strings.Contains(attached, "not permitted") && os.Geteuid() != 0 {
		t.Skip("this account may not trace other processes; the journal's own tests of a failing fsync stand in")
	}
	if err != nil || !strings.Contains(attached, "attached") {
		t.Fatalf("strace says %q: %v", attached, err)
	}
	return func() string {
		_ = strace.Wait() // it ends with the worker
		content := must.Get(os.ReadFile(log))(t)
		found := injected.FindSubmatch(content)
		if found == nil {
			t.Fatalf("no fsync was made to fail:\n%s", content)
		}
		return string(found[1])
	}
}

// The clocks of a worker and its runner are set by a day, forth and back, under load and while the database is away; then
// a worker starts whose clock is behind all that is in the journal. Jobs run on, nothing ends before it
// began, and whatever waits, waits as long as it would have.
func TestClockSet(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	master := harness.StartMaster(t)
	s := newSite(t, shortJob, map[string]int{"a": 4}, polling, harness.MasterOf(master))
	link := harness.NewLink(t, s.Addr)
	s.settings = s.settings.With(link.ToDatabase())
	worker, _ := s.start(t)
	clocks := []wallClock{newWallClock(t, worker.Pid), newWallClock(t, harness.RunnerOf(s.settings["journal_dir"]))}
	client := harness.Dial(t, worker.Addr)
	client.Ask(t, "status", nil)
	batch, furthest := size(60, 1000), time.Duration(0)
	steps := []time.Duration{day, -day, 0, 400 * day, -day, day}
	for _, ahead := range steps {
		s.insert(t, batch, "a")
		awaitProgress(t, s, s.jobs-batch+4)
		for _, clock := range clocks {
			clock.set(t, ahead)
		}
		link.Away()
		<-time.After(500 * time.Millisecond) // that is how long it is away
		link.Back()
		s.awaitDone(t)
		furthest = max(furthest, ahead)
		if s.Count(t, "time_finished > ?", time.Now().Add(furthest-time.Hour).Unix()) == 0 {
			t.Errorf("no job finished %s ahead of the machine's clock: that of the worker was not set", furthest)
		}
	}
	client.Ask(t, "status", nil) // its connection did not end
	s.insert(t, batch, "a")
	awaitProgress(t, s, s.jobs-batch/2)
	worker.Signal(t, syscall.SIGTERM)
	if code := worker.ExitCode(t); code != 0 {
		t.Errorf("stopped with %d:\n%s", code, worker.Output())
	}
	if strings.Contains(worker.Output(), "no connection to the master") {
		t.Errorf("the master was lost:\n%s", worker.Output())
	}
	s.start(t)
	s.awaitDone(t)
	checkTimes(t, s.settings["journal_dir"])
	suite.matrix.add(line{fault: "10 clock set by a day and a year, forth and back", runs: len(steps) + 1, tally: s.known(t)})
}

// checkTimes checks that no event of a journal is older than the one before it.
func checkTimes(t *testing.T, dir string) {
	t.Helper()
	reader := must.Get(replay.Open(dir))(t)
	var last journal.Event
	for e, err := range reader.Events(t.Context(), journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Time.Before(last.Time) {
			t.Errorf("event %d is of %s, and %d behind it of %s", last.Seq, last.Time, e.Seq, e.Time)
		}
		last = e
	}
	if last.Seq == 0 {
		t.Error("the journal is empty")
	}
}

// polling makes a worker look for jobs by itself, so that a test needs no clients.
var polling = harness.Settings{"poll_interval": "200ms"}

// awaitProgress waits until n jobs are done.
func awaitProgress(t *testing.T, s *site, n int) {
	t.Helper()
	n = min(n, s.jobs)
	if !await(func() bool { return s.Count(t, "status = 'done'") >= n }) {
		t.Fatalf("only %d jobs are done, not %d:\n%s", s.Count(t, "status = 'done'"), n, s.undone(t))
	}
}

// known is the audit of a site none of whose processes was killed: all outcomes are known.
func (s *site) known(t *testing.T, journals ...string) tally {
	t.Helper()
	found := s.audit(t, journals...)
	if found.unknown > 0 {
		t.Errorf("%d outcomes are unknown, though no process was killed", found.unknown)
	}
	return found
}

// Links break around the bytes of a COMMIT, of a claim or of the mirror, many times.
func TestLinkCutAtCommits(t *testing.T) {
	t.Parallel()
	s := newSite(t, "", map[string]int{"a": 4}, polling)
	link := harness.NewLink(t, s.Addr)
	s.settings = s.settings.With(link.ToDatabase())
	s.start(t)
	cuts := size(20, 500)
	for range cuts {
		fault := linkproxy.Fault(rand.IntN(3))
		broken := link.Break("; COMMIT", fault)
		s.insert(t, 3, "a")
		select {
		case <-broken.Done:
		case <-time.After(patience):
			t.Fatalf("no COMMIT was sent for %s:\n%s", patience, s.undone(t))
		}
		if fault == linkproxy.Held {
			<-atRandom(200 * time.Millisecond)
			broken.Release()
		}
		s.awaitDone(t) // else retries would wait longer and longer
	}
	suite.matrix.add(line{fault: "4 link cut at a COMMIT", runs: cuts, tally: s.known(t)})
}

// wallClock is the clock of one process, which can be set while the program, as it is shipped, runs on. A program asks for
// the time in the code that the kernel maps into it, the vDSO; this code is replaced by
//
//	mov  $228, %eax        clock_gettime(2), the system call
//	syscall
//	test %edi, %edi        CLOCK_REALTIME?
//	jne  end
//	movabs $offset, %rcx   seconds
//	add  %rcx, (%rsi)
//	end: ret
//
// in the memory of that process alone. As with a clock that is set, the time of day jumps, and the monotonic clock goes on.
type wallClock struct {
	pid    int
	offset int64 // where in the memory the seconds stand
}

var (
	askKernel = []byte{0xb8, 228, 0, 0, 0, 0x0f, 0x05, 0x85, 0xff, 0x75, 13, 0x48, 0xb9}
	andReturn = []byte{0x48, 0x01, 0x0e, 0xc3}
)

// newWallClock takes the clock of a process of ours into its hands.
func newWallClock(t *testing.T, pid int) wallClock {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the clock of a process is set by machine code, which is written for amd64 only")
	}
	at, err := clockFunction(pid)
	if err != nil {
		t.Fatalf("find the clock of process %d: %v", pid, err)
	}
	c := wallClock{pid: pid, offset: at + int64(len(askKernel))}
	c.write(t, at, bytes.Join([][]byte{askKernel, make([]byte, 8), andReturn}, nil))
	return c
}

// set moves the clock away from the machine's.
func (c wallClock) set(t *testing.T, ahead time.Duration) {
	t.Helper()
	c.write(t, c.offset, binary.LittleEndian.AppendUint64(nil, uint64(int64(ahead/time.Second))))
}

// write changes the memory of the process while it stands still.
func (c wallClock) write(t *testing.T, at int64, content []byte) {
	t.Helper()
	proctest.Stop(t, c.pid)
	defer syscall.Kill(c.pid, syscall.SIGCONT)
	memory := must.Get(os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.pid), os.O_WRONLY, 0))(t)
	defer memory.Close()
	if _, err := memory.WriteAt(content, at); err != nil {
		t.Fatalf("write the clock of process %d: %v", c.pid, err)
	}
}

// clockFunction finds clock_gettime in the vDSO of a process.
func clockFunction(pid int) (int64, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	var begin, end int64
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[vdso]") {
			_, err = fmt.Sscanf(line, "%x-%x", &begin, &end)
		}
	}
	if err != nil || begin == 0 {
		return 0, fmt.Errorf("it has no vDSO: %w", err)
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return 0, err
	}
	defer memory.Close()
	image := make([]byte, end-begin)
	if _, err := memory.ReadAt(image, begin); err != nil {
		return 0, err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	symbols, err := file.DynamicSymbols()
	for _, symbol := range symbols {
		if symbol.Name == "__vdso_clock_gettime" {
			return begin + int64(symbol.Value), nil
		}
	}
	return 0, errors.Join(errors.New("its vDSO has no clock"), err)
}

// Of a Galera pair the node that the worker uses is killed under load. One of two is no majority:
// the other node takes no statement until somebody tells it that it is the cluster now. Then the
// jobs go on there: what was committed is there, so nothing is lost, and nothing runs twice.
func TestGaleraNodeKilled(t *testing.T) {
	t.Parallel()
	pair := harness.StartPair(t)
	router := harness.NewLink(t, pair[0].Addr())
	s := newSiteOn(t, pair[0], shortJob, map[string]int{"a": 4}, polling, router.ToDatabase())
	s.start(t)
	s.insert(t, size(300, 3000), "a")
	awaitProgress(t, s, s.jobs/4)
	begun := time.Now()
	must.Do(t, pair[0].Kill())
	router.Lead(pair[1].Addr())
	admin := pair[1].Admin()
	harness.Until(t, func() string { // SHOW is what a node without a majority answers
		var name, state string
		if err := admin.QueryRowContext(t.Context(), "SHOW STATUS LIKE 'wsrep_cluster_status'").Scan(&name, &state); err != nil || state == "Primary" {
			return fmt.Sprintf("the node that is left is %q: %v", state, err)
		}
		return ""
	})
	alone := time.Since(begun)
	var refused *mysql.MySQLError
	if _, err := admin.ExecContext(t.Context(), "SELECT COUNT(*) FROM "+s.Name+".jobs"); !errors.As(err, &refused) || refused.Number != 1047 {
		t.Errorf("one node of two is asked for rows: %v, want error 1047", err)
	}
	must.Get(admin.ExecContext(t.Context(), "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'"))(t)
	told := time.Now()
	s.moveTo(t, pair[1])
	harness.Until(t, func() string { // it takes statements a moment later
		if _, err := s.Admin.ExecContext(t.Context(), "SELECT COUNT(*) FROM jobs"); err != nil {
			return err.Error()
		}
		return ""
	})
	awaitProgress(t, s, s.Count(t, "status = 'done'")+1)
	on := time.Since(told)
	s.awaitDone(t)
	suite.matrix.add(line{
		fault: "6 node of a Galera pair killed", runs: 1, tally: s.known(t),
		note: fmt.Sprintf("the other notices after %s; told that it is the cluster, its rows get their ends %s after",
			alone.Round(time.Millisecond), on.Round(time.Millisecond)),
	})
}

package gearman

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the table's driver

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// function is what the workers can do.
const function = "work"

// asWorker is a variable by which the test's own program is a worker: of which address, and which file it writes.
const asWorker = "JOBD_GEARMAN_WORKER"

// beWorker does jobs for ever. Before each it writes a line into the file: over which of its connections which job came.
func beWorker(order string) error {
	addr, file, _ := strings.Cut(order, " ")
	log, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		conn, err := net.Dial("tcp", addr)
		if err != nil { // the server is away
			<-time.After(10 * time.Millisecond)
			continue
		}
		l := &link{conn: conn}
		err = l.work(func(job packet) error {
			_, err := fmt.Fprintf(log, "%d.%d %s %s\n", os.Getpid(), n, job.arguments[1], idOf(job.arguments[0]))
			return err
		})
		conn.Close()
		if !errors.Is(err, errGone) {
			return err
		}
	}
}

var errGone = errors.New("the connection is gone")

// work does jobs until the connection is gone, or do fails.
func (l *link) work(do func(job packet) error) error {
	gone := l.send(1, function)
	ask := func(k kind, arguments ...string) {
		if gone == nil {
			gone = l.send(k, arguments...)
		}
	}
	for {
		ask(9)
		if gone != nil {
			return errors.Join(errGone, gone)
		}
		got, err := l.wanted(6, 10, 11)
		for err == nil && got.kind == 6 { // a NOOP that was on its way
			got, err = l.wanted(6, 10, 11)
		}
		switch {
		case err != nil:
			return errors.Join(errGone, err)
		case got.kind == 10:
			ask(4)
			if _, err = l.wanted(6); err != nil {
				return errors.Join(errGone, err)
			}
		default:
			if err := do(got); err != nil {
				return err
			}
			ask(13, got.arguments[0], "")
		}
	}
}

var row = regexp.MustCompile(`^H:[^:]*:(\d+)(\.\d+)?$`)

// idOf is the id of a handle's row; a job that is run again has the number of its attempt behind it.
func idOf(handle string) string {
	parts := row.FindStringSubmatch(handle)
	if parts == nil {
		return handle
	}
	return parts[1]
}

// submitter submits jobs, each until the server says that it has it.
type submitter struct {
	addr string
	l    *link
}

func (s *submitter) submit(unique string) (id string) {
	for {
		if s.l == nil {
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				<-time.After(10 * time.Millisecond)
				continue
			}
			s.l = &link{conn: conn}
		}
		err := s.l.send(18, function, unique, unique)
		if err == nil {
			var got packet
			if got, err = s.l.wanted(8); err == nil {
				return idOf(got.arguments[0])
			}
		}
		s.l.conn.Close()
		s.l = nil
	}
}

// Jobs in the background that clients submit while jobd and workers are killed: none is lost, and none is run twice
// but those that a worker had whose connection was lost, where on_crash says so.
func TestKilled(t *testing.T) {
	t.Parallel()
	for onCrash, jobs := range map[string]int{"requeue": 400, "fail": 400} {
		t.Run(onCrash, func(t *testing.T) {
			t.Parallel()
			testKilled(t, onCrash, harness.Size(1, 200)*jobs, harness.Size(4, 8), harness.Size(4, 16))
		})
	}
}

func testKilled(t *testing.T, onCrash string, jobs, kills, n int) {
	t.Helper()
	settings, addr, table := site(t)
	settings = settings.With(harness.Settings{"on_crash": onCrash, "log_level_console": "error"})
	daemon := settings.StartWorker(t)
	file := filepath.Join(t.TempDir(), "runs")
	workers := make([]*exec.Cmd, n)
	for i := range workers {
		workers[i] = startWorker(t, addr, file)
	}

	const clients = 8
	var submitted atomic.Int64
	ids := make([][]string, clients)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			s := submitter{addr: addr}
			for n := range jobs / clients {
				ids[c] = append(ids[c], s.submit(fmt.Sprintf("%d.%d", c, n)))
				submitted.Add(1)
			}
			s.l.conn.Close()
		})
	}
	for n := range kills {
		harness.Until(t, func() string {
			if at, want := submitted.Load(), int64((n+1)*jobs/(kills+1)); at < want {
				return fmt.Sprintf("%d jobs were submitted, of %d before the next kill", at, want)
			}
			return ""
		})
		dies := workers[n%len(workers)]
		must.Do(t, dies.Process.Kill())
		daemon.Kill(t)
		_ = dies.Wait()
		workers[n%len(workers)] = startWorker(t, addr, file)
		daemon = settings.StartWorker(t)
	}
	all.Wait()

	db := must.Get(sql.Open("sqlite", "file:"+table+"?mode=ro&_pragma=busy_timeout(30000)"))(t)
	defer db.Close()
	for left := -1; left != 0; { // as long as there are fewer and fewer it has patience
		harness.Until(t, func() string {
			before := left
			must.Do(t, db.QueryRow("SELECT COUNT(*) FROM jobs WHERE status <> 'done'").Scan(&left))
			if left == before {
				return fmt.Sprintf("%d jobs are not done", left)
			}
			return ""
		})
	}
	results := map[string]string{} // by row
	rows := must.Get(db.Query("SELECT id, result FROM jobs"))(t)
	for rows.Next() {
		var id, result string
		must.Do(t, rows.Scan(&id, &result))
		results[id] = result
	}
	must.Do(t, rows.Err())
	judge(t, slices.Concat(ids...), onCrash == "requeue", kills*len(workers), results, runsIn(t, file))
}

// runs are how often jobs were begun, and how often of these as the last one of a connection.
type runs map[string]struct{ begun, last int }

// runsIn reads what the workers wrote.
func runsIn(t *testing.T, file string) runs {
	t.Helper()
	runs, last := runs{}, map[string]string{}
	for line := range strings.Lines(string(must.Get(os.ReadFile(file))(t))) {
		words := strings.Fields(line)
		of := runs[words[2]]
		of.begun++
		runs[words[2]] = of
		last[words[0]] = words[2]
	}
	for _, job := range last {
		of := runs[job]
		of.last++
		runs[job] = of
	}
	return runs
}

// judge tells what is wrong with what became of jobs: each was run, and was run again, or failed, only as often as the
// connection of a worker was lost that had it; that can have been held ones at most.
func judge(t *testing.T, ids []string, requeue bool, held int, results map[string]string, runs runs) {
	t.Helper()
	repeated, failed := 0, 0
	for _, id := range ids {
		run, most := runs[id], 1
		if requeue {
			most += run.last
		}
		switch result := results[id]; {
		case run.begun > most:
			t.Errorf("job %s was run %d times, and may have been %d times", id, run.begun, most)
		case result == "ok" && run.begun > 0:
			repeated += run.begun - 1
		case result == "fail" && !requeue && (run.last > 0 || run.begun == 0): // else it was on its way to a worker
			failed++
		default:
			t.Errorf("job %s ended %q after %d runs, %d of them the last of a connection", id, cmp.Or(result, "nowhere"), run.begun, run.last)
		}
	}
	if failed > held {
		t.Errorf("%d jobs failed in crashes in which workers had %d at most", failed, held)
	}
	t.Logf("of %d jobs %d were run again after a crash, and %d failed in one", len(ids), repeated, failed)
}

// startWorker starts a worker that somebody may kill.
func startWorker(t *testing.T, addr, file string) *exec.Cmd {
	t.Helper()
	worker := exec.Command(must.Get(os.Executable())(t))
	worker.Env = append(os.Environ(), asWorker+"="+addr+" "+file)
	worker.Stderr = os.Stderr
	must.Do(t, worker.Start())
	t.Cleanup(func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	})
	return worker
}

func dial(t *testing.T, addr string) *link {
	t.Helper()
	var conn net.Conn
	harness.Until(t, func() string {
		var err error
		if conn, err = net.Dial("tcp", addr); err != nil {
			return err.Error()
		}
		return ""
	})
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(harness.Patience))
	return &link{conn: conn}
}

// asked sends a packet, and gives what comes, which is of that kind.
func (l *link) asked(t *testing.T, want, k kind, arguments ...string) packet {
	t.Helper()
	must.Do(t, l.send(k, arguments...))
	return must.Get(l.wanted(want))(t)
}

// A job of a worker that dies is another one's within ten seconds: it is woken for it.
func TestJobOfADeadWorker(t *testing.T) {
	t.Parallel()
	settings, addr, _ := site(t)
	settings.StartWorker(t)
	client := dial(t, addr)
	client.asked(t, 8, 18, function, "", "")
	first, second := dial(t, addr), dial(t, addr)
	must.Do(t, first.send(1, function))
	first.grab(t)
	must.Do(t, second.send(1, function))
	second.asked(t, 10, 9)
	must.Do(t, second.send(4))
	second.asked(t, 17, 16, "it sleeps")
	_ = second.conn.(net.Conn).SetDeadline(time.Now().Add(10 * time.Second))
	must.Do(t, first.conn.Close())
	must.Get(second.wanted(6))(t)
	job := second.grab(t)
	must.Do(t, second.send(13, job.arguments[0], ""))
}

// grab asks for a job, and sleeps until there is one.
func (l *link) grab(t *testing.T) packet {
	t.Helper()
	for {
		must.Do(t, l.send(9))
		got := must.Get(l.wanted(6, 10, 11))(t)
		for got.kind == 6 {
			got = must.Get(l.wanted(6, 10, 11))(t)
		}
		if got.kind == 11 {
			return got
		}
		must.Do(t, l.send(4))
		must.Get(l.wanted(6))(t)
	}
}

// A unique id is that of the job that was submitted before a crash; a job with a time wakes a worker after one.
func TestWhatACrashLeaves(t *testing.T) {
	t.Parallel()
	settings, addr, table := site(t)
	daemon := settings.StartWorker(t)
	before := dial(t, addr)
	handle := before.asked(t, 8, 7, function, "id", "the first").arguments[0]
	background := before.asked(t, 8, 18, function, "other", "background").arguments[0]
	due := time.Now().Unix() + 3
	delayed := before.asked(t, 8, 36, function, "", strconv.FormatInt(due, 10), "later").arguments[0]
	daemon.Kill(t)
	settings.StartWorker(t)

	after, worker := dial(t, addr), dial(t, addr)
	if got := after.asked(t, 8, 7, function, "id", "the second").arguments[0]; got != handle {
		t.Errorf("the job of a unique id was %s before a crash, and is %s after it", handle, got)
	}
	must.Do(t, worker.send(1, function))
	for _, want := range []struct{ handle, workload string }{{handle, "the first"}, {background, "background"}, {delayed, "later"}} {
		job := worker.grab(t)
		if job.arguments[0] != want.handle || job.arguments[2] != want.workload {
			t.Errorf("the worker got %q, want %v", job.arguments, want)
		}
		must.Do(t, worker.send(13, job.arguments[0], "the end"))
	}
	if at := time.Now().Unix(); at < due {
		t.Errorf("a job came %d s before its time", due-at)
	}
	if got := must.Get(after.wanted(13))(t); got.arguments[1] != "the end" {
		t.Errorf("the client that came after the crash heard %q", got.arguments)
	}
	db := must.Get(sql.Open("sqlite", "file:"+table+"?mode=ro&_pragma=busy_timeout(30000)"))(t)
	defer db.Close()
	harness.Until(t, func() string {
		var done, all int
		must.Do(t, db.QueryRow("SELECT COUNT(*) FILTER (WHERE status = 'done'), COUNT(*) FROM jobs").Scan(&done, &all))
		if done != 3 || all != 3 {
			return fmt.Sprintf("%d rows of %d are done, of 3", done, all)
		}
		return ""
	})
}

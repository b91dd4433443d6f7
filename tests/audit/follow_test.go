package audit

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// following is a jobctl that follows, and what it tells.
type following struct {
	cmd   *exec.Cmd
	lines chan string
	errs  chan string
}

func follow(t *testing.T, addr string, args ...string) *following {
	t.Helper()
	_, port, _ := strings.Cut(addr, ":")
	f := &following{lines: make(chan string, 1000), errs: make(chan string, 1000)}
	f.cmd = exec.CommandContext(t.Context(), harness.Program(t, "jobctl"), slices.Concat([]string{"--config", os.DevNull, "--port", port, "journal", "log", "--follow", "--output", "json"}, args)...)
	for _, pipe := range []struct {
		open func() (io.ReadCloser, error)
		into chan string
	}{{f.cmd.StdoutPipe, f.lines}, {f.cmd.StderrPipe, f.errs}} {
		reader := must.Get(pipe.open())(t)
		go func() {
			defer close(pipe.into)
			for lines := bufio.NewScanner(reader); lines.Scan(); {
				pipe.into <- lines.Text()
			}
		}()
	}
	must.Do(t, f.cmd.Start())
	return f
}

// told waits for a line on stderr that has the words.
func (f *following) told(t *testing.T, words string) {
	t.Helper()
	late := time.After(harness.Patience)
	for {
		select {
		case line, more := <-f.errs:
			if !more {
				t.Fatalf("jobctl ended, and never said %q", words)
			}
			if strings.Contains(line, words) {
				return
			}
		case <-late:
			t.Fatalf("jobctl never said %q", words)
		}
	}
}

// sees waits until the events up to the one about a job's end were printed, and gives their numbers.
func (f *following) sees(t *testing.T, job int64) (numbers []uint64) {
	t.Helper()
	late := time.After(harness.Patience)
	for {
		select {
		case line := <-f.lines:
			var e struct {
				Seq  uint64
				Job  int64
				Kind string
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if numbers = append(numbers, e.Seq); e.Job == job && e.Kind == "done" {
				return numbers
			}
		case <-late:
			t.Fatalf("the end of job %d was never printed", job)
		}
	}
}

// A worker is killed while somebody follows its journal, directly or through the master, and is started again: jobctl says so, and goes on
// where it was. No event is missed and none comes twice. An interrupt ends it in order.
func TestFollowSurvivesTheWorker(t *testing.T) {
	t.Parallel()
	for name, throughMaster := range map[string]bool{"the worker": false, "the master": true} {
		t.Run("through "+name, func(t *testing.T) {
			t.Parallel()
			db := harness.NewDatabase(t)
			master := harness.StartMaster(t)
			worker, settings := start(t, db, "node-1", "mail", 1, 1, harness.MasterOf(master))
			harness.AwaitWorkers(t, master, "", 1)
			addr, flags := worker.Addr, []string(nil)
			if throughMaster {
				addr, flags = master.Addr, []string{"--master"}
			}
			f := follow(t, addr, flags...)
			numbers := f.sees(t, 1)
			for id := int64(2); id <= 3; id++ {
				worker.Kill(t)
				f.told(t, "trying again")
				db.Insert(t, id, "mail", "waiting")
				worker = settings.StartWorker(t)
				f.told(t, "connected again")
				numbers = append(numbers, f.sees(t, id)...)
			}
			for i, number := range numbers {
				if number != uint64(i+1) {
					t.Fatalf("event %d came after %d others", number, i)
				}
			}
			must.Do(t, f.cmd.Process.Signal(syscall.SIGINT))
			if err := f.cmd.Wait(); err != nil {
				t.Errorf("interrupted: %v", err)
			}
		})
	}
}

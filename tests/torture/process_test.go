package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/tests/harness"
)

// Jobs that leave something behind, or end as jobs should not.
func TestUnrulyJobs(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		script string
		want   string // the outcome
	}{
		{"a grandchild keeps the output open", `sleep 300 &`, "ok 0 NULL"},
		{"a grandchild in a session of its own keeps the output open", `setsid sleep 300 & echo $! > $gate.pid`, "ok 0 NULL"},
		{"children that nobody waits for", `for i in 1 2 3 4 5; do sleep 300 > /dev/null 2>&1 & done`, "ok 0 NULL"},
		{"killed by itself", `kill -9 $$`, "fail NULL SIGKILL"},
		{"terminated by itself", `kill -15 $$`, "fail NULL SIGTERM"},
		{"a storm of forks, limited", storm, "ok 0 NULL"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.script, map[string]int{"a": 1})
			s.jobs = 3
			s.insert(t, 1, "a") // job 4, which exits with 0
			s.start(t)
			s.oracle.awaitStarts(t, 1)
			pid := s.oracle.read(t).starts[attempt{4, 1}][0]
			t.Cleanup(func() { killLeft(t, pid, s.oracle.gate+".pid") })
			if !await(func() bool { return gone(pid) }) {
				t.Fatal("the job's process does not end")
			}
			ended := time.Now()
			row := s.AwaitDone(t, 4)
			took := time.Since(ended)
			code := "NULL"
			if row.Code != nil {
				code = fmt.Sprint(*row.Code)
			}
			if got := fmt.Sprintf("%s %s %s", harness.Text(row.Result), code, signal(row)); got != c.want {
				t.Errorf("outcome %s, want %s: %s", got, c.want, row)
			}
			if !await(func() bool { return len(group(pid)) == 0 }) {
				t.Errorf("processes %s are left in the job's group", group(pid))
			}
			checkJournal(t, s.settings["journal_dir"], s.oracle.read(t))
			suite.matrix.add(line{fault: "11 " + c.name, runs: 1, tally: tally{jobs: 1}, note: "done " + took.Round(10*time.Millisecond).String() + " after the process"})
		})
	}
}

// storm forks until it may not any more, under an account of its own: root has no limit.
const storm = `setpriv --reuid=64123 --regid=64123 --clear-groups prlimit --nproc=40 sh -c 'i=0; while [ $i -lt 100 ]; do sleep 300 & i=$((i+1)); done' 2>/dev/null`

func signal(row harness.Row) string {
	if row.Sig == nil || *row.Sig == "" {
		return "NULL"
	}
	return *row.Sig
}

// gone tells whether a process has ended, reaped or not.
func gone(pid int) bool {
	state, _ := status(fmt.Sprint(pid))
	return state == "" || state == "Z"
}

// group lists the processes of a group that have not ended.
func group(pgid int) (pids []string) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		pid := filepath.Base(folder)
		if state, of := status(pid); of == fmt.Sprint(pgid) && state != "Z" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// status is a process's state and its group; "" where there is no such process.
func status(pid string) (state, group string) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return "", ""
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return fields[0], fields[2]
}

// killLeft kills what is left of a job: its group, and a process whose id is in a file.
func killLeft(t *testing.T, pgid int, file string) {
	for _, pid := range group(pgid) {
		t.Logf("process %s was left", pid)
		_ = syscall.Kill(-pgid, syscall.SIGKILL) // all of them at the first
	}
	if content, err := os.ReadFile(file); err == nil {
		pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
		if err != nil || pid <= 1 {
			t.Errorf("%s holds %q: no process id", file, content)
			return
		}
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

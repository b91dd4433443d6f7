package executors

import (
	"fmt"
	"strings"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// lasting is a job that lasts long enough to be struck.
const lasting = "sleep 0.05; code=$((id % 4))"

// insertMore adds so many jobs of each executor.
func (l *load) insertMore(n int) {
	l.t.Helper()
	for range n {
		for _, e := range l.executors {
			l.insert(e, l.jobs, lasting, waiting)
		}
		l.jobs++
	}
}

// mayBe tells whether a job may have ended otherwise than by itself where something was killed at
// any moment. What kills a process ends the job that it has, and is seen. Where a process was asked
// for a job and is gone before it has answered, nobody knows.
func (e executor) mayBe(how string, killed string) bool {
	switch killed {
	case theWorker, theRunner:
		return how == unknown && e.known[killed] == unknown
	}
	return how == unknown && (e.mode != "" || e.service) || how == bySIG && !e.service
}

// audit waits until all jobs are done, and compares what the table says with what the jobs have
// written. So many outcomes of each executor may be unknown at most.
func (l *load) audit(killed string, most int) {
	l.t.Helper()
	all := l.jobs * len(l.executors)
	for done := -1; done != all; { // the long form has many; as long as some end, it waits for the others
		harness.Until(l.t, func() string {
			before := done
			if done = l.Count(l.t, "status = 'done'"); done == before {
				return fmt.Sprintf("%d of %d jobs are done; some of the others: %s", done, all, l.undone())
			}
			return ""
		})
	}
	ends := map[int64]bool{}
	for _, line := range l.read() {
		if line.word == "end" {
			ends[int64(line.job)] = true
		}
	}
	for _, e := range l.executors {
		found := map[string]int{}
		for n := range l.jobs {
			id := l.id(e, n)
			row := l.Row(l.t, id)
			switch how := l.how(row, id); {
			case how == "":
				if !ends[id] {
					l.t.Errorf("%s: job %d has ended by itself, and has not: %s", e.name, id, row)
				}
			case e.mayBe(how, killed):
				found[how]++
			default:
				l.t.Errorf("%s: job %d has ended otherwise than it should have: %s", e.name, id, row)
			}
		}
		if found[unknown] > most {
			l.t.Errorf("%s: %d outcomes are unknown, and there can be %d", e.name, found[unknown], most)
		}
		l.t.Logf("%s: %d jobs, %d unknown, %d killed", e.name, l.jobs, found[unknown], found[bySIG])
	}
	l.startedOnce()
}

// how tells how a job ended that was struck, "" for one that was not.
func (l *load) how(row harness.Row, id int64) string {
	want := "ok"
	if id%4 != 0 {
		want = "fail"
	}
	switch {
	case strings.HasPrefix(shown(row), unknown):
		return unknown
	case row.Code != nil && int64(*row.Code) == id%4 && harness.Text(row.Result) == want:
		return ""
	case strings.HasPrefix(shown(row), "fail - SIGKILL "):
		return bySIG
	}
	return shown(row)
}

// undone tells of some rows that are not done.
func (l *load) undone() (rows string) {
	l.t.Helper()
	must.Do(l.t, l.Admin.QueryRowContext(l.t.Context(), "SELECT COALESCE(GROUP_CONCAT(CONCAT(id, ' ', status, ' ', COALESCE(sig, '')) SEPARATOR ', '), '') "+
		"FROM (SELECT id, status, sig FROM jobs WHERE status <> 'done' LIMIT 10) AS some").Scan(&rows))
	return rows
}

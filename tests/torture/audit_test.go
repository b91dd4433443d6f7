package torture

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/journal/verify"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// outcome is a row as the audit reads it.
type outcome struct {
	id             int
	status         string
	result, stderr string
	code           int // −1: NULL
	stdout         string
	stdoutSize     int
	finished       int64
	started        int64
}

// unknown tells whether the row says that nobody knows how the job ended.
func (o outcome) unknown() bool {
	return o.result == "fail" && o.code == -1 && strings.Contains(o.stderr, "outcome unknown")
}

// wrong says what is wrong with a row of the oracle's launcher that is done.
func (o outcome) wrong() string {
	code, result := o.id%4, "ok"
	if code != 0 {
		result = "fail"
	}
	switch {
	case o.result != result || o.code != code:
		return fmt.Sprintf("result %s, code %d", o.result, o.code)
	case !strings.HasSuffix(o.stdout, fmt.Sprintf("out %d\n", o.id)) || o.stderr != fmt.Sprintf("err %d\n", o.id):
		return fmt.Sprintf("stdout ends in %q, stderr %q", o.stdout, o.stderr)
	case o.started == 0 || o.finished < o.started:
		return fmt.Sprintf("started at %d, finished at %d", o.started, o.finished)
	}
	return ""
}

// audit compares table, oracle and journals when all is over, and counts.
func (s *site) audit(t *testing.T, journals ...string) tally {
	t.Helper()
	if len(journals) == 0 {
		journals = []string{s.settings["journal_dir"]}
	}
	seen, found := s.oracle.read(t), tally{jobs: s.jobs}
	outcomes := s.outcomes(t)
	for i, o := range outcomes {
		must.Equal(t, o.id, i+1, "row … of the table is job …: rows came or went")
		switch {
		case o.status != "done":
			found.lost++
			t.Errorf("job %d is %s at the end", o.id, o.status)
		case o.unknown():
			found.unknown++
		case o.wrong() != "":
			t.Errorf("job %d: %s", o.id, o.wrong())
		case seen.ends[attempt{o.id, 1}]+seen.ends[attempt{o.id, 2}]+seen.ends[attempt{o.id, 3}] == 0:
			t.Errorf("job %d is done, but was never run", o.id)
		}
	}
	check.Equal(t, len(outcomes), s.jobs, "the table has … rows, and had")
	for a, pids := range seen.starts {
		if len(pids) > 1 {
			found.doubled++
			t.Errorf("job %d was started %d times in attempt %d, as processes %d", a.job, len(pids), a.number, pids)
		}
	}
	for _, dir := range journals {
		checkJournal(t, dir, seen)
	}
	return found
}

// outcomes reads all rows, in the order of ids.
func (s *site) outcomes(t *testing.T) (outcomes []outcome) {
	t.Helper()
	rows := must.Get(s.Admin.QueryContext(t.Context(), "SELECT id, status, COALESCE(result, ''), COALESCE(return_code, -1), "+
		"COALESCE(RIGHT(stdout, 100), ''), COALESCE(LENGTH(stdout), 0), COALESCE(stderr, ''), time_started, time_finished FROM jobs ORDER BY id"))(t)
	defer rows.Close()
	for rows.Next() {
		var o outcome
		must.Do(t, rows.Scan(&o.id, &o.status, &o.result, &o.code, &o.stdout, &o.stdoutSize, &o.stderr, &o.started, &o.finished))
		outcomes = append(outcomes, o)
	}
	must.Do(t, rows.Err())
	return outcomes
}

// checkJournal verifies a journal, and that it names no other processes than the oracle.
func checkJournal(t *testing.T, dir string, seen history) {
	t.Helper()
	reader := must.Get(replay.Open(dir))(t)
	must.Get(verify.Audit(t.Context(), reader.Folder(), nil, nil))(t)
	attempts := map[int64]int{}
	for e, err := range reader.Events(t.Context(), journal.Filter{Kinds: []journal.Kind{journal.KindRunning, journal.KindStarted}}) {
		if err != nil {
			t.Fatal(err)
		}
		switch p := e.Payload.(type) {
		case journal.Running:
			attempts[e.Job] = p.Attempt
		case journal.Started:
			a := attempt{int(e.Job), attempts[e.Job]}
			if pids := seen.starts[a]; len(pids) > 0 && !slices.Contains(pids, p.Pid) {
				t.Errorf("job %d: the journal knows process %d, the oracle %d", e.Job, p.Pid, pids)
			}
		}
	}
}

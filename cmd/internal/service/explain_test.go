package service

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/exec/board"
	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/replay"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// rows is a table in the test's hands.
type rows struct {
	Table   // what nobody asks for here
	details map[int64]*store.Detail
	tail    int
	waiters []store.Waiter
	away    error
}

func (r *rows) Details(_ context.Context, _ []int64, _ []string, tail int) (map[int64]*store.Detail, error) {
	r.tail = tail
	return r.details, r.away
}

func (r *rows) Ahead(_ context.Context, waiters []store.Waiter, most int) (map[int64]store.Counted, error) {
	r.waiters = waiters
	ahead := map[int64]store.Counted{}
	for _, w := range waiters {
		ahead[w.Job] = store.Counted{Rows: most, More: true}
	}
	return ahead, nil
}

func (r *rows) CountDue(_ context.Context, _ string, before int64, most int) (store.Counted, error) {
	return store.Counted{Rows: int(before)}.UpTo(most), nil
}

// row is a row of target mail.
func row(id int64, status, owner string) *store.Detail {
	return &store.Detail{Seen: store.Seen{Row: journal.Row{Job: id, Target: "mail", Status: status, Owner: owner}}, Served: "mail"}
}

// newExplainer makes a service with a table, and a journal that holds what the drafts say.
func newExplainer(t *testing.T, worker *stub, table *rows, drafts ...journal.Draft) *Service {
	t.Helper()
	dir := t.TempDir()
	written := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: dir}))(t)
	opened := journal.Draft{Payload: journal.Opened{Name: "node-1", Targets: map[string]int{"mail": 1}}}
	for _, d := range append([]journal.Draft{opened}, drafts...) {
		must.Get(written.Append(d))(t)
	}
	t.Cleanup(func() {
		check.Do(t, written.Close())
	})
	s := newService(worker)
	config := s.Config
	config.Table, config.Journal, config.PollInterval = table, must.Get(replay.Open(dir))(t), time.Minute
	config.Owed = func() []store.QuarantinedRow {
		return []store.QuarantinedRow{{Job: 6, Wanted: "done", Reason: "CHECK"}}
	}
	return New(config)
}

func explainOf(t *testing.T, s *Service, q api.ExplainQuery) api.Explained {
	t.Helper()
	got := must.Get(s.Explain(t.Context(), asked(""), q))(t)
	return got
}

// What table, worker, mirror and journal know comes together, by job.
func TestExplainPutsTogether(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_000)
	worker := &stub{
		status: jobexec.Status{Targets: map[string]jobexec.TargetStatus{"mail": {}, "b": {}}},
		explained: map[int64]jobexec.Explanation{
			5: {Standing: &jobexec.JobStanding{Standing: board.Standing{Phase: board.Queued, Target: "mail", Before: 2, Attempt: 1}, Claimed: at}},
			7: {Quarantined: &jobexec.QuarantinedRow{Reason: "CHECK weight", Since: at}},
		},
		standings: map[string]jobexec.TargetStanding{"mail": {
			TargetStatus: jobexec.TargetStatus{Concurrency: 3, Running: 3, PausedBy: "me", PausedSince: 9, Paused: true},
			Hindrance:    jobexec.Hindrance{Kind: jobexec.HinderedLauncher, Why: "no such file", Since: at}, Room: 1, Looks: true,
		}},
	}
	table := &rows{details: map[int64]*store.Detail{5: row(5, "waiting", ""), 6: row(6, "running", "@abcdxxxxx")}}
	table.details[5].Served = ""
	s := newExplainer(t, worker, table)
	got := explainOf(t, s, api.ExplainQuery{IDs: []jobnet.Whole{5, 6, 7, 5}})
	standing := &api.TargetStanding{
		Name: "mail", Paused: true, PausedSince: 9, PausedBy: "me", Concurrency: 3, Room: 1, Looks: true,
		Hindered: "launcher", Why: "no such file", Since: at.UnixMilli(), Interval: 60_000,
	}
	want := api.Explained{Name: "node-1", Targets: []string{"b", "mail"}, Jobs: []api.ExplainedJob{
		{
			Job: 5, Row: &api.JobRow{Target: "mail", Status: "waiting"}, Ahead: &api.JobsAhead{Rows: 10_000, More: true},
			Here: &api.JobStanding{Phase: "queued", Target: "mail", Before: 2, Attempt: 1, Since: at.UnixMilli()},
		},
		{Job: 6, Row: &api.JobRow{Target: "mail", Status: "running", Owner: "@abcdxxxxx"}, Target: standing, Quarantined: &api.QuarantinedJob{Wanted: "done", Reason: "CHECK"}},
		{Job: 7, Quarantined: &api.QuarantinedJob{Reason: "CHECK weight", Since: at.UnixMilli()}},
	}}
	check.Equal(t, cmp.Diff(want, got), "", "-want +")
	if table.tail != 0 || len(table.waiters) != 1 {
		t.Errorf("asked for %d bytes, %v", table.tail, table.waiters)
	}
	explainOf(t, s, api.ExplainQuery{IDs: []jobnet.Whole{5}, Output: true})
	check.Equal(t, table.tail, longestTail, "of one job … bytes are read")
}

// A table that can't be read takes nothing from what worker and journal know.
func TestExplainWithoutTheTable(t *testing.T) {
	t.Parallel()
	code := 3
	table := &rows{away: errors.New("connection refused")}
	s := newExplainer(
		t, &stub{}, table,
		journal.Draft{Job: 5, Payload: journal.Accepted{Target: "mail", Token: "@aaaa00001"}},
		journal.Draft{Job: 5, Payload: journal.Released{Reason: "a pause", Target: "mail", Token: "@aaaa00001"}},
		journal.Draft{Job: 5, Payload: journal.Accepted{Target: "mail", Token: "@aaaa00002"}},
		journal.Draft{Job: 5, Payload: journal.Running{Attempt: 1, Token: "@aaaa00002"}},
		journal.Draft{Job: 5, Payload: journal.Started{Pid: 47, StartTime: 1, BootID: "b"}},
		journal.Draft{Job: 5, Payload: journal.Signal{Signo: 15, By: "10.0.0.5:1"}},
		journal.Draft{Job: 5, Payload: journal.Done{Result: "fail", Code: &code, Elapsed: 1500, Token: "@aaaa00002"}},
		journal.Draft{Job: 6, Payload: journal.Accepted{Target: "mail", Token: "@aaaa00003"}},
		journal.Draft{Job: 6, Payload: journal.Conflict{Wanted: "running", Token: "@aaaa00003", Found: &journal.Row{Status: "waiting", Owner: "x"}}},
		journal.Draft{Job: 7, Payload: journal.Ignored{Reason: "status = waiting != manual"}},
	)
	got := explainOf(t, s, api.ExplainQuery{IDs: []jobnet.Whole{5, 6, 7, 8}})
	if got.Table != "connection refused" || len(got.Jobs) != 4 || got.Jobs[3].Journal != nil {
		t.Fatalf("%+v", got)
	}
	done := got.Jobs[0].Journal
	if done.At == 0 || done.Claimed == 0 || done.Ended == 0 {
		t.Errorf("times: %+v", done)
	}
	done.At, done.Claimed, done.Ended = 0, 0, 0
	want := &api.JobHistory{
		Status: "done", Last: "done", Token: "@aaaa00002", Result: "fail", Code: &code, Ran: 1500,
	}
	check.Equal(t, cmp.Diff(want, done), "", "-want +")
	if h := got.Jobs[1].Journal; h.Status != "conflict" || h.Found == nil || *h.Found != (api.FoundRow{Status: "waiting", Owner: "x"}) {
		t.Errorf("%+v", h)
	}
	if h := got.Jobs[2].Journal; h.Status != "ignored" || h.Reason != "status = waiting != manual" {
		t.Errorf("%+v", h)
	}
}

// So many are explained at once, and no more; who waits too long hears so.
func TestExplainTakesTurns(t *testing.T) {
	t.Parallel()
	s := newExplainer(t, &stub{}, &rows{})
	for range mostLooking {
		s.looking <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Explain(ctx, asked(""), api.ExplainQuery{IDs: []jobnet.Whole{5}}); jobnet.CodeOf(err) != jobnet.CodeLimit {
		t.Errorf("%v", err)
	}
	<-s.looking
	explainOf(t, s, api.ExplainQuery{IDs: []jobnet.Whole{5}})
}

// A journal that can't be read for many jobs is a line in the log.
func TestJournalThatIsNotReadIsALine(t *testing.T) {
	t.Parallel()
	s := newExplainer(t, &stub{}, &rows{})
	var log bytes.Buffer
	s.Logger = slog.New(slog.NewTextHandler(&log, nil))
	x := &explanation{Service: s, ids: []int64{5, 6}}
	x.answer.Jobs = make([]api.ExplainedJob, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x.readHistory(ctx)
	if x.answer.Jobs[0].Unread == "" || x.answer.Jobs[1].Unread == "" || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("%+v; logged: %s", x.answer.Jobs, &log)
	}
}

// Every phase of the board has its word.
func TestPhasesHaveWords(t *testing.T) {
	t.Parallel()
	for phase := board.Queued; phase < board.Gone; phase++ {
		if phases[phase] == "" {
			t.Errorf("%s has none", phase)
		}
	}
}

// A row that somebody else ended may still have the token of a claim where signals stand.
func TestATokenIsNoSignal(t *testing.T) {
	t.Parallel()
	for sig, want := range map[string]string{"@abcd12345": "", "TERM": "TERM", "": ""} {
		check.Equal(t, jobRow(&store.Detail{Sig: sig}).Sig, want, "%q", sig)
	}
}

// Of a job under way the worker tells, of one that has ended the journal; offsets at which nothing
// was kept are passed over, and counted.
func TestOutputComesFromWhoeverHasIt(t *testing.T) {
	t.Parallel()
	at, code := time.UnixMilli(1_800_000_000_000), 3
	here := func(out jobexec.JobOutput) func(jobexec.Glance) (jobexec.JobOutput, bool, error) {
		return func(jobexec.Glance) (jobexec.JobOutput, bool, error) { return out, true, nil }
	}
	nowhere := func(jobexec.Glance) (out jobexec.JobOutput, found bool, err error) { return }
	never := func() (*journal.Event, int, error) { return nil, 0, nil }
	once := func() (*journal.Event, int, error) {
		return &journal.Event{Time: at, Payload: journal.Done{
			Result: "fail", Code: &code, Reason: "why", Note: "note",
			Stdout: journal.Output{Kept: []byte("01234"), Size: 9}, Stderr: journal.Output{Kept: []byte("e"), Size: 1},
		}}, 2, nil
	}
	end := &api.OutputEnd{Result: "fail", Code: &code, Reason: "why", Note: "note", Ended: at.UnixMilli()}
	for name, test := range map[string]struct {
		output func(jobexec.Glance) (jobexec.JobOutput, bool, error)
		ended  func() (*journal.Event, int, error)
		query  api.OutputQuery
		want   api.JobOutput
	}{
		"claimed": {here(jobexec.JobOutput{Attempt: 1}), never, api.OutputQuery{}, api.JobOutput{Attempt: 1, State: "claimed", Running: true}},
		"running": {
			here(jobexec.JobOutput{Attempt: 1, Started: true, Adopted: true, Written: jobexec.Written{{At: 9, Bytes: []byte("x"), Size: 10}, {At: 4, Size: 4}}}),
			never,
			api.OutputQuery{Stdout: 5, Stderr: -3},
			api.JobOutput{
				Attempt: 1, State: "running", Running: true, Adopted: true,
				Stdout: api.OutputPart{At: 9, Bytes: []byte("x"), Size: 10, Skipped: 4}, Stderr: api.OutputPart{At: 4, Size: 4},
			},
		},
		"ended": {
			nowhere, once,
			api.OutputQuery{Stdout: 3, Most: 10},
			api.JobOutput{
				Attempt: 2, State: "ended", Done: end,
				Stdout: api.OutputPart{At: 3, Bytes: []byte("34"), Size: 9}, Stderr: api.OutputPart{Bytes: []byte("e"), Size: 1},
			},
		},
		"at its end": {
			nowhere, once,
			api.OutputQuery{Stdout: 7, Stderr: 1, Attempt: 2},
			api.JobOutput{
				Attempt: 2, State: "ended", Done: end,
				Stdout: api.OutputPart{At: 9, Size: 9, Skipped: 2}, Stderr: api.OutputPart{At: 1, Size: 1},
			},
		},
		"unknown":         {nowhere, never, api.OutputQuery{}, api.JobOutput{State: "unknown"}},
		"another attempt": {nowhere, once, api.OutputQuery{Attempt: 1}, api.JobOutput{Attempt: 1, State: "unknown"}},
	} {
		test.query.Job, test.want.Job = 5, 5
		got, err := newService(&stub{output: test.output, ended: test.ended}).Output(t.Context(), asked("x"), test.query)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
	}
	silent := func(jobexec.Glance) (jobexec.JobOutput, bool, error) {
		return jobexec.JobOutput{}, true, errors.New("it stands still")
	}
	_, err := newService(&stub{output: silent}).Output(t.Context(), asked("x"), api.OutputQuery{Job: 5})
	if err == nil || err.Error() != "job 5 runs, but its output can't be shown: it stands still" {
		t.Errorf("of a runner that stands still: %v", err)
	}
}

// The list is cut behind what comes first in its order; what can't be measured comes last, and is
// told as not known.
func TestRunningJobsAreSortedBeforeTheListIsCut(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_800_000_000_000)
	s := newService(&stub{running: []jobexec.JobStanding{
		{ID: 1, Standing: board.Standing{Began: at.Add(3 * time.Second)}, Usage: &jobexec.Usage{Ran: 5 * time.Second, CPU: time.Second, Memory: 30, Processes: 2}},
		{ID: 2, Standing: board.Standing{Began: at}, Usage: &jobexec.Usage{CPU: 3 * time.Second, Memory: 10}},
		{
			ID: 3, Standing: board.Standing{Began: at.Add(time.Second), Target: "a", Manual: true, Attempt: 2},
			Started: journal.Started{Pid: 7}, Adopted: true, Cancelled: true,
		},
		{ID: 4},
	}})
	for order, want := range map[string][]int64{
		api.SortAge: {4, 2, 3, 1}, api.SortCPU: {2, 1, 4, 3}, api.SortMemory: {1, 2, 4, 3},
	} {
		for most := 1; most <= 4; most++ {
			got, err := s.Running(t.Context(), asked("x"), api.RunningQuery{Sort: order, Most: most})
			if err != nil || got.Total != 4 || len(got.Jobs) != most {
				t.Fatalf("%d of %d jobs, want %d: %v", len(got.Jobs), got.Total, most, err)
			}
			for i, j := range got.Jobs {
				check.Equal(t, int64(j.Job), want[i], "by %s the jobs are %+v, want %v", order, got.Jobs, want)
			}
		}
	}
	got, _ := s.Running(t.Context(), asked("x"), api.RunningQuery{Sort: api.SortAge, Most: 4})
	if j := got.Jobs[2]; j.Elapsed != nil || j.CPU != nil || j.Memory != nil || !j.Manual || !j.Adopted || !j.Cancelled || j.PID != 7 || j.Attempt != 2 || j.Target != "a" || j.Since != at.UnixMilli()+1000 {
		t.Errorf("job 3 is told as %+v", j)
	}
	if j := got.Jobs[3]; *j.Elapsed != 5000 || *j.CPU != 1000 || *j.Memory != 30 || j.Processes != 2 {
		t.Errorf("job 1 is told as %+v", j)
	}
	check.Equal(t, got.Jobs[0].Since, 0, "a start of which nobody knows the time was at")
}

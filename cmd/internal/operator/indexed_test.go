package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/cmd/internal/history"
	"jobd/cmd/internal/service"
	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/index"
	"jobd/journal/journaltest"
	"jobd/journal/journaltest/readtest"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Whatever came after a failure: the index and the journal tell the same. A worker whose index knows no failures has
// its journal read.
func TestFailuresByIndexAndByJournal(t *testing.T) {
	t.Parallel()
	log := journaltest.OpenWith(t, eventlog.Config{Dir: t.TempDir(), Now: readtest.Ticking()})
	three := 3
	type after = []journal.Payload
	claim := after{journal.Accepted{Target: "a", Token: "@1"}, journal.Running{Attempt: 1}, journal.Started{Pid: 1}}
	fails := func(again string) journal.Done {
		done := journal.Done{Result: "fail", Code: &three, Token: "@1", Stderr: journal.Output{Kept: []byte("no disk\n"), Size: 8}}
		if again != "" {
			done.Again = &journal.Again{RunAt: 2e9, Why: again}
		}
		return done
	}
	cancelled := fails("")
	cancelled.Reason = journal.CancelledBy("me")
	retried := journal.Retried{Target: "a", From: "done", To: "waiting", By: "me"}
	late := journal.Conflict{Wanted: journal.WantedRetried}
	ignored := journal.Ignored{Reason: "no such target", Told: true}
	tests := []struct {
		name   string
		first  journal.Done
		after  after
		row    history.Row
		listed string
	}{
		{"failed", fails(""), nil, history.Row{Status: "done"}, "yes"},
		{"cancelled while it ran", cancelled, nil, history.Row{Status: "done"}, ""},
		{"recurs, and runs", fails("schedule"), claim, history.Row{Status: "running", Owner: "@2"}, "yes"},
		{"recurs, and was released", fails("schedule"), after{claim[0], journal.Released{Reason: "stop"}}, history.Row{Status: "delayed"}, "yes"},
		{"recurs, and was planned", fails("schedule"), after{journal.Planned{Target: "a"}}, history.Row{Status: "delayed"}, "yes"},
		{"tried again", fails("retry"), claim, history.Row{Status: "running", Owner: "@2"}, "retrying"},
		{"retried", fails(""), after{retried}, history.Row{Status: "waiting"}, ""},
		{"a retry that came too late", fails(""), after{retried, late}, history.Row{Status: "done"}, "yes"},
		{"ended well since", fails("retry"), append(claim[:3:3], journal.Done{Result: "ok"}), history.Row{Status: "done", Result: "ok"}, ""},
		{"failed again", fails("retry"), append(claim[:3:3], fails("")), history.Row{Status: "done"}, "yes"},
		{"ignored since", fails("schedule"), after{ignored}, history.Row{Status: "ignored"}, ""},
	}
	rows := history.RowsAnswer{}
	for i, test := range tests {
		id := int64(i + 1)
		for _, payload := range append(append(claim[:3:3], test.first), test.after...) {
			e := journaltest.MustAppend(t, log, journal.Draft{Job: id, Payload: payload})[0]
			if done, is := payload.(journal.Done); is {
				test.row.Finished, test.row.Result = e.Time.Unix(), done.Result
			}
		}
		test.row.Job, test.row.Target = jobnet.Whole(id), "a"
		rows.Rows = append(rows.Rows, test.row)
	}
	x := index.New(index.Config{Dir: log.Dir, Log: log, Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	defer func() { stop(); <-ended }()
	for err := index.ErrNone; err != nil || x.Standing(ctx).Lag > 0; { // the first question has it begin
		_, err = x.Targets(ctx)
	}
	s := service.New(service.Config{Index: x, Logger: slog.New(slog.DiscardHandler)})
	worker := func(change func(q *api.JobsQuery) error) *Worker {
		return answering(t, rows, func(ctx context.Context, q api.JobsQuery) (none api.FoundJobs, err error) {
			q.Most = 4 // several pages
			if err := change(&q); err != nil {
				return none, err
			}
			return s.Jobs(ctx, service.Call{}, q)
		})
	}
	read := false
	sources := []Source{noting{Folder{Reader: readtest.OpenReader(t, log.Dir)}, &read}}
	for how, change := range map[string]func(q *api.JobsQuery) error{
		"index":    func(*api.JobsQuery) error { return nil },
		"journal":  func(*api.JobsQuery) error { return jobnet.Refusal("there is no index") },
		"an older": func(q *api.JobsQuery) error { q.Failures = false; return nil },
	} {
		j := &Journals{Sources: sources, Workers: []*Worker{worker(change)}}
		for _, retrying := range []bool{false, true} {
			read = false
			found, err := j.FindFailed(t.Context(), FailedQuery{Most: 50, Retrying: retrying})
			if err != nil || found.More || found.Unchecked != nil || read != (how != "index") {
				t.Fatalf("%s: %v, %v, the journal was read: %v", how, err, found.Unchecked, read)
			}
			var want, got []string
			for i, test := range tests {
				if test.listed == "yes" || retrying && test.listed != "" {
					want = append([]string{fmt.Sprintf("%d %s: 3 no disk %d", i+1, test.name, rows.Rows[i].Finished)}, want...)
				}
			}
			for _, f := range found.All {
				got = append(got, fmt.Sprintf("%d %s: %s %s %d", f.Job, tests[f.Job-1].name, f.Exit(), f.Line, f.Ended/1000))
			}
			check.Equal(t, cmp.Diff(want, got), "", "%s, retrying %v (-want +got)", how, retrying)
		}
	}
}

// noting is a source that notes that its events are read.
type noting struct {
	Source
	read *bool
}

func (n noting) Events(ctx context.Context, q history.Query) iter.Seq2[journal.Event, error] {
	*n.read = true
	return n.Source.Events(ctx, q)
}

// answering is a worker that has rows, and an index.
func answering(t *testing.T, rows history.RowsAnswer, jobs func(context.Context, api.JobsQuery) (api.FoundJobs, error)) *Worker {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := jobnet.NewServer(jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{
		"status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			return map[string]any{"targets": nil}, nil
		},
		api.JournalRows: func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return rows, nil },
		api.Jobs.Name: func(ctx context.Context, _ *jobnet.Link, r jobnet.Request) (any, error) {
			q := api.JobsQuery{}
			must.Do(t, json.Unmarshal(r.Data, &q))
			return jobs(ctx, q)
		},
	}})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	d := New(Config{Address: listener.Addr().String()})
	t.Cleanup(func() {
		d.Close()
		stop()
		<-served
		_ = server.Shutdown(context.Background())
	})
	return d.direct()
}

// Where one worker's newest failures are none any more, older ones of another don't take the place of those behind.
func TestFailuresOfSeveralIndexes(t *testing.T) {
	t.Parallel()
	rows, j := history.RowsAnswer{}, &Journals{}
	for w := range 2 {
		var all []api.FoundJob
		for i := range 30 {
			at := time.Unix(int64(2000-1000*w-i), 0)
			job := jobnet.Whole(100*w + i)
			all = append(all, api.FoundJob{Key: api.JobKey{At: at.UnixMicro(), Seq: 1}.String(), Job: job, Failure: []byte(`{"result":"fail"}`)})
			status := "done"
			if w == 0 && i < 25 {
				status = "waiting"
			}
			rows.Rows = append(rows.Rows, history.Row{Job: job, Target: "a", Status: status, Result: "fail", Finished: at.Unix()})
		}
		j.Workers = append(j.Workers, answering(t, rows, func(_ context.Context, q api.JobsQuery) (page api.FoundJobs, err error) {
			from := 1 + slices.IndexFunc(all, func(job api.FoundJob) bool { return job.Key == q.Before })
			page.Jobs = all[from:min(from+4, len(all))]
			if from+4 < len(all) {
				page.Next = all[from+3].Key
			}
			return page, nil
		}))
	}
	slices.Reverse(j.Workers) // the one that has all rows is asked for them
	found, err := j.FindFailed(t.Context(), FailedQuery{Most: 6})
	var got []jobnet.Whole
	for _, f := range found.All {
		got = append(got, f.Job)
	}
	if want := "[25 26 27 28 29 100]"; err != nil || fmt.Sprint(got) != want || !found.More {
		t.Errorf("%v, want %s; more: %v, %v", got, want, found.More, err)
	}
}

// What several workers had is one page, the newest first, each job once; what stands behind a place that one of them
// has not looked behind waits for the next page.
func TestPagesOfSeveralWorkers(t *testing.T) {
	t.Parallel()
	at := func(at int64, seq uint64) api.JobKey { return api.JobKey{At: at, Seq: seq} }
	job := func(worker string, id int64, key api.JobKey) FoundJob {
		return FoundJob{api.FoundJob{Job: jobnet.Whole(id), Key: key.String()}, worker}
	}
	all := []FoundJob{job("a", 1, at(90, 4)), job("b", 2, at(80, 9)), job("b", 1, at(70, 8)), job("a", 3, at(60, 3)), job("b", 4, at(60, 3)), job("a", 5, at(50, 2))}
	for _, test := range []struct {
		most int
		end  api.JobKey
		want string
		next api.JobKey
	}{
		{10, api.JobKey{}, "[1 2 3 4 5]", api.JobKey{}},
		{10, at(60, 3), "[1 2 3 4]", at(60, 3)},
		{10, at(85, 1), "[1]", at(85, 1)},
		{2, at(60, 3), "[1 2]", at(80, 9)},
		{3, api.JobKey{}, "[1 2 3 4]", at(60, 3)}, // two with one key stay together
		{10, at(95, 9), "[]", at(95, 9)},
	} {
		page := FoundJobs{Jobs: slices.Clone(all)}
		page.cut(test.most, test.end)
		var ids []int64
		for _, job := range page.Jobs {
			ids = append(ids, int64(job.Job))
		}
		if got := fmt.Sprint(ids); got != test.want || page.Next != test.next.String() {
			t.Errorf("%d up to %v: %s, next %s", test.most, test.end, got, page.Next)
		}
	}
}

// Steps are added to those of the same time.
func TestCountsAreAddedByTime(t *testing.T) {
	t.Parallel()
	var sum api.Counts
	add(&sum, api.Counts{Started: []int64{1, 2, 3}, Ended: []int64{1, 1, 1}, Failed: []int64{0, 0, 1}}, 0)
	add(&sum, api.Counts{Started: []int64{9, 10, 20}, Ended: []int64{0, 0, 5}, Failed: []int64{9, 0, 0}}, 1)
	check.Equal(t, fmt.Sprint(sum), "{[11 22 3] [1 6 1] [0 0 1]}")
}

// What looks at the newest events only says how far back it has looked, and goes on from there.
func TestLooksBackSoFar(t *testing.T) {
	t.Parallel()
	log := journaltest.OpenTest(t, t.TempDir())
	var all []journal.Event
	for job := range int64(10) {
		all = append(all, journaltest.MustAppend(t, log, readtest.WholeLife(job+1)...)...)
	}
	done := slices.DeleteFunc(slices.Clone(all), func(e journal.Event) bool { return e.Kind() != journal.KindDone })
	query := history.Query{Kinds: []journal.Kind{journal.KindDone}, Last: 100}
	var found []uint64
	for range 3 {
		j := &Journals{Sources: []Source{Folder{Reader: readtest.OpenReader(t, log.Dir)}}, Look: uint64(len(all) / 2)}
		for e, err := range j.Events(t.Context(), query) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, e.Item.Seq)
		}
		if j.LookedBack.IsZero() {
			break
		}
		if len(found) != len(done)/2 || !slices.ContainsFunc(all, func(e journal.Event) bool { return e.Time.Equal(j.LookedBack) }) {
			t.Errorf("found %d of %d, looked back to %v", found, len(done), j.LookedBack)
		}
		query.Until = j.LookedBack
	}
	if slices.Sort(found); len(found) != len(done) {
		t.Errorf("found %d, not all of %d", found, len(done))
	}
	since := &Journals{Sources: []Source{Folder{Reader: readtest.OpenReader(t, log.Dir)}}, Look: 5}
	query.Since = all[len(all)-2].Time
	query.Until = all[len(all)-1].Time.Add(1)
	for _, err := range since.Events(t.Context(), query) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !since.LookedBack.IsZero() {
		t.Errorf("since leaves out more, and it was told to have looked back to %v", since.LookedBack)
	}
}

// A run that somebody made due before its time is not told to be in time.
func TestARunBeforeItsTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	r := Run{planned: at.Unix(), timed: true}
	for _, test := range []struct {
		ahead time.Duration
		want  string
	}{
		{time.Hour, ", before its planned time"}, {time.Second, ", 0.00s later than planned"}, {-3 * time.Second, ", 3.00s later than planned"},
	} {
		r.late = ""
		if got := r.lateText(1, at.Add(-test.ahead)); got != test.want || (r.late == "") != (test.ahead == time.Hour) {
			t.Errorf("%s ahead: %q, and %q of it", test.ahead, got, r.late)
		}
	}
}

package operator

import (
	"context"
	"encoding/json"
	"fmt"
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
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/must"
)

// Whatever came after a failure: the index and the journal tell the same. A worker whose index knows no failures has
// its journal read.
func TestFailuresByIndexAndByJournal(t *testing.T) {
	t.Parallel()
	log := journaltest.OpenWith(t, eventlog.Config{Dir: t.TempDir(), Now: journaltest.Ticking()})
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
	sources := []Source{Folder{Reader: journaltest.OpenReader(t, log.Dir)}}
	for how, change := range map[string]func(q *api.JobsQuery) error{
		"index":    func(*api.JobsQuery) error { return nil },
		"journal":  func(*api.JobsQuery) error { return jobnet.Refusal("there is no index") },
		"an older": func(q *api.JobsQuery) error { q.Failures = false; return nil },
	} {
		j := &Journals{Sources: sources, Workers: []*Worker{worker(change)}}
		for _, retrying := range []bool{false, true} {
			read := false
			found, err := j.FindFailed(t.Context(), FailedQuery{Most: 50, Retrying: retrying}, func(uint64) { read = true })
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
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, retrying %v (-want +got):\n%s", how, retrying, diff)
			}
		}
	}
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
	found, err := j.FindFailed(t.Context(), FailedQuery{Most: 6}, func(uint64) {})
	var got []jobnet.Whole
	for _, f := range found.All {
		got = append(got, f.Job)
	}
	if want := "[25 26 27 28 29 100]"; err != nil || fmt.Sprint(got) != want || !found.More {
		t.Errorf("%v, want %s; more: %v, %v", got, want, found.More, err)
	}
}

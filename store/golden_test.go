package store_test

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
	"jobd/store/storetest/must"
)

// What rows should say, over generated jobs, events and rows: each line of testdata/golden.gz is one
// case and what became of it, as the code said when the file was made (-golden makes it anew). Code
// that decides the same otherwise has to say the same. testdata/golden.txt has the first cases, to
// be read.
var remake = flag.Bool("golden", false, "make testdata/golden.gz anew")

// cases is how many histories are generated.
const cases = 600

func TestRowsSayWhatTheyDid(t *testing.T) {
	t.Parallel()
	var now bytes.Buffer
	for n := range uint64(cases) {
		g := &generator{Rand: rand.New(rand.NewPCG(n, 7)), state: journal.State{KeepEnded: true}, out: &now}
		g.one(n)
	}
	if *remake {
		remakeGolden(t, now.Bytes())
		return
	}
	file := must.Get(os.Open("testdata/golden.gz"))(t)
	defer file.Close()
	unpacked := must.Get(gzip.NewReader(file))(t)
	want, got := lines(unpacked), lines(&now)
	lines, differ := 0, 0
	for want.Scan() {
		lines++
		if !got.Scan() {
			t.Fatalf("line %d is missing: %s", lines, want.Text())
		}
		if want.Text() != got.Text() {
			if differ++; differ <= 10 {
				t.Errorf("line %d:\nwant %s\ngot  %s", lines, want.Text(), got.Text())
			}
		}
	}
	if got.Scan() || differ > 0 || lines < cases {
		t.Errorf("%d of %d lines differ, or there are more", differ, lines)
	}
}

func lines(r io.Reader) *bufio.Scanner {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	return scanner
}

func remakeGolden(t *testing.T, text []byte) {
	t.Helper()
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	must.Get(w.Write(text))(t)
	must.Do(t, w.Close())
	sample := bytes.Join(bytes.SplitAfter(text, []byte("\n"))[:40], nil)
	must.Do(t, cmp.Or(os.WriteFile("testdata/golden.gz", packed.Bytes(), 0o644), os.WriteFile("testdata/golden.txt", sample, 0o644)))
}

// generator makes the history of one job, rows that it may meet, and what the store says of them.
type generator struct {
	*rand.Rand
	state  journal.State
	events []journal.Event
	out    io.Writer
}

// The ids and times of all cases: seconds are few, so that they often coincide.
const (
	theJob = 7
	epoch  = 1_800_000_000
)

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) one(n uint64) {
	for range 3 + g.IntN(9) {
		g.event()
	}
	for _, recur := range []bool{false, true} {
		changes, taken, lost, err := store.Collapse(fixed{g}, recur, g.events)
		fmt.Fprintf(g.out, "%d collapse recur=%t %s => %d %s lost=%s %v\n", n, recur, g.story(), taken, asJSON(changes), asJSON(lost), err)
		for _, change := range changes {
			g.judge(n, change)
		}
	}
	job := g.state.Job(theJob)
	fmt.Fprintf(g.out, "%d wanted => %s change %s claim %s\n", n, asJSON(store.Wanted(job)), asJSON(store.ChangeTo(job)), asJSON(store.ClaimOf(job)))
	for range 6 {
		row := g.row(job)
		fmt.Fprintf(g.out, "%d row %s => agrees %t refusal %q, of a stale claim %q\n", n, asJSON(row), store.Agrees(job, row),
			store.Refusal(job, row, false), store.Refusal(job, row, true))
		if row != nil {
			fmt.Fprintf(g.out, "%d give back => %s\n", n, asJSON(store.GiveBack(job, row)))
		}
	}
	g.verdicts(n)
}

// event appends the next event that the journal takes.
func (g *generator) event() {
	job := g.state.Job(theJob)
	for range 40 {
		e := journal.Event{
			Seq: g.state.Seq + 1, Time: time.Unix(epoch+int64(g.state.Seq)/2, 0).UTC(), Job: theJob, Payload: g.payload(job),
		}
		if g.state.Apply(e) == nil {
			g.events = append(g.events, e)
			return
		}
	}
}

// payload is any payload; the journal refuses what can't be.
func (g *generator) payload(job journal.Job) journal.Payload {
	token := pick(g, job.Token, job.Token, "")
	again := pick(g, nil, nil, &journal.Again{RunAt: epoch + 50, PlannedAt: epoch + 50, Attempts: g.Int64N(3), Why: pick(g, journal.AgainRetry, journal.AgainSchedule)})
	switch g.IntN(12) {
	case 0, 1:
		return journal.Accepted{
			Target: pick(g, "a", "b"), Manual: g.IntN(4) == 0, Token: fmt.Sprintf("@wrk1%05d", g.state.Seq), Created: epoch - g.Int64N(2),
			From: pick(g, "", "", journal.RowDelayed), Plan: g.plan(), PlannedAt: pick(g, 0, epoch+g.Int64N(9)),
		}
	case 2, 3:
		return journal.Running{Attempt: job.Attempt + g.IntN(2), Claimed: g.IntN(3) == 0, Token: token, Runner: "r"}
	case 4:
		return journal.Started{Pid: 5, StartTime: 6, BootID: "b"}
	case 5, 6:
		code := pick(g, 0, 1, 65)
		return journal.Done{
			Result: pick(g, "ok", "fail"), Code: pick(g, &code, nil), Signal: pick(g, "", "SIGTERM"), Token: token, Again: again,
			Note: pick(g, "", "note"), Reason: pick(g, "", "why"),
		}
	case 7:
		return journal.Released{Reason: "r", Target: pick(g, job.Target, ""), Manual: job.Manual, Token: token, From: job.From, Plan: pick(g, job.Plan, nil)}
	case 8:
		return pick[journal.Payload](g,
			journal.Ignored{Reason: "r", By: pick(g, "", "10.0.0.1:5"), Manual: g.IntN(2) == 0, Told: g.IntN(2) == 0},
			journal.Planned{Target: "a", From: journal.Plan{RunAt: 4}, To: journal.Again{RunAt: epoch + 9, PlannedAt: epoch + 9, Why: journal.AgainSchedule}, Reason: "r"})
	case 9:
		return journal.Cancelled{By: "10.0.0.1:5", Runs: g.IntN(2) == 0, Token: job.Token}
	case 10:
		return pick[journal.Payload](g,
			journal.Retried{Target: "a", From: pick(g, journal.RowDone, journal.RowIgnored), To: pick(g, journal.RowWaiting, journal.RowManual), Result: pick(g, "ok", ""), Finished: epoch + g.Int64N(4), By: "x"},
			journal.Replanned{Token: job.Token, Schedule: pick(g, "", "every 9s"), Zone: pick(g, "", "UTC"), Again: again, Note: pick(g, "", "n")})
	}
	return pick[journal.Payload](g,
		journal.Conflict{Wanted: pick(g, "", journal.RowIgnored, journal.WantedRetried), Token: pick(g, token, "@wrk100000"), Found: &journal.Row{Status: "waiting"}},
		journal.Signal{Signo: 15, By: "x", Ends: g.IntN(2) == 0}, journal.SetAside{Wanted: "done", Reason: "r", Token: token}, journal.Requeued{Reason: "r", Token: token})
}

func (g *generator) plan() *journal.Plan {
	return pick(g, nil, &journal.Plan{
		RunAt: pick(g, 0, epoch+g.Int64N(9)), PlannedAt: pick(g, 0, epoch+g.Int64N(9)), Attempts: g.Int64N(3),
		Schedule: pick(g, "", "every 5s", "every 9s"), Zone: pick(g, "", "UTC"),
	})
}

// row is a row that a job may meet: near what it should say, and anything else.
func (g *generator) row(job journal.Job) *store.Seen {
	if g.IntN(12) == 0 {
		return nil
	}
	row := &store.Seen{
		Row: journal.Row{
			Job: theJob, Target: pick(g, job.Target, job.Target, "a"), Plan: g.plan(),
			Status: pick(g, journal.RowWaiting, journal.RowManual, journal.RowDelayed, journal.RowAccepted, journal.RowRunning, journal.RowDone, journal.RowIgnored),
			Owner:  pick(g, job.Token, job.Token, "", "@wrk199999", "@else00000"),
		},
		Created: epoch - 1 + g.Int64N(4), Started: pick(g, 0, epoch+g.Int64N(6)), Finished: pick(g, 0, epoch+g.Int64N(6)), Result: pick(g, "", "ok", "fail"),
	}
	if want := store.Wanted(job); want != nil && g.IntN(2) == 0 {
		row.Status, row.Owner, row.Started, row.Finished, row.Result = want.Status, want.Owner, want.Started, want.Finished, want.Result
	}
	row.Row.Finished, row.Row.Result = row.Finished, row.Result
	return row
}

// someUses are tables that use nothing of time, some, and all.
func someUses() []store.Uses {
	return []store.Uses{nil, {store.ColumnRunAt, store.ColumnPlannedAt, store.ColumnAttempts}, store.TimeColumns()}
}

// judge tells what a change that met no row makes of what is there.
func (g *generator) judge(n uint64, change store.Change) {
	for range 4 {
		row, uses := g.row(g.state.Job(theJob)), pick(g, someUses()...)
		if row != nil && g.IntN(2) == 0 {
			row.Owner, row.Status = change.Token, pick(g, journal.RowAccepted, journal.RowRunning)
		}
		fmt.Fprintf(g.out, "%d judge %s uses=%d row %s => %s\n", n, asJSON(change), len(uses), asJSON(row), asJSON(rule.Judge(change, row, uses)))
	}
	fmt.Fprintf(g.out, "%d write %s => %s\n", n, asJSON(change), written(shape().Write(change, false)))
}

// verdicts tells what a claim, or a retry, makes of the rows that it has locked.
func (g *generator) verdicts(n uint64) {
	var rows []journal.Row
	var events []journal.Event
	for id := range int64(1 + g.IntN(3)) {
		row := g.row(journal.Job{Target: "a"})
		if row == nil {
			continue
		}
		row.Job = id + 1
		if g.IntN(3) > 0 {
			row.Status, row.Plan = journal.RowWaiting, nil
		}
		rows = append(rows, row.Row)
		g.state = journal.State{KeepEnded: true}
		for _, payload := range pick(g, []journal.Payload{
			journal.Accepted{Target: "a", Token: "@wrk100001", PlannedAt: pick[int64](g, 0, epoch+3)}, journal.Running{Attempt: 1 + g.IntN(2), Claimed: true},
		}, []journal.Payload{journal.Accepted{Target: "a", Token: "@wrk100001"}}, []journal.Payload{g.payload(journal.Job{Token: "@wrk100001"})}) {
			events = append(events, journal.Event{Job: row.Job, Time: time.Unix(epoch, 0).UTC(), Payload: payload})
		}
	}
	verdicts, err := rule.Verdicts(rows, events)
	fmt.Fprintf(g.out, "%d verdicts %s %s =>", n, asJSON(rows), shownEvents(events))
	for _, verdict := range verdicts {
		fmt.Fprintf(g.out, " %v %s guard %q;", verdict.Jobs, written(verdict.Write(shape())), verdict.Guard())
	}
	fmt.Fprintf(g.out, " %v\n", err)
}

// story is the history, in words.
func (g *generator) story() string { return shownEvents(g.events) }

func shownEvents(events []journal.Event) string {
	words := make([]string, len(events))
	for i, e := range events {
		words[i] = fmt.Sprintf("%d@%d %s%s", e.Job, e.Time.Unix()-epoch, e.Kind(), asJSON(e.Payload))
	}
	return strings.Join(words, " ")
}

func asJSON(what any) string {
	text, err := json.Marshal(what)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func written(list []rule.Assignment) string {
	text, args := rule.Set(list, func(name string) string { return name })
	return fmt.Sprintf("%s %q", text, args)
}

// shape is a table that takes NULL for nothing.
func shape() *rule.Shape {
	null := rule.Column{Nullable: true}
	return &rule.Shape{
		Uses: store.TimeColumns(), Owner: "sig", Worker: "w",
		Columns: map[string]rule.Column{"sig": null, "result": null, "return_code": null, "stdout": null, "stderr": null},
		Output: func(done *journal.Done, _ bool) (stdout, stderr string) {
			shown := done.ShownStderr()
			return string(done.Stdout.Kept), string(shown.Kept)
		},
	}
}

// fixed is the journal that the mirror reads.
type fixed struct{ g *generator }

func (fixed) Next(context.Context, uint64, int) ([]journal.Event, error) { return nil, nil }

func (fixed) Retried(context.Context, int64, uint64) (bool, error) { return false, nil }

func (fixed) Append(...journal.Draft) ([]journal.Event, error) { return nil, nil }

func (fixed) View(look func(*journal.State))                                      { look(&journal.State{}) }
func (fixed) Back(context.Context, uint64, time.Duration, uint64) (uint64, error) { return 0, nil }

func (h fixed) Claim(_ context.Context, job int64, seq uint64) (accepted journal.Accepted, err error) {
	err = journal.ErrNoClaim
	for _, e := range h.g.events {
		if p, ok := e.Payload.(journal.Accepted); ok && e.Job == job && e.Seq < seq {
			accepted, err = p, nil
		}
	}
	return accepted, err
}

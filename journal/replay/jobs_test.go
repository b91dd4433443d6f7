package replay_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
	"jobd/journal/journaltest/readtest"
	"jobd/journal/replay"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// life is a journal that lives a random life: it works, rolls over, is maintained, restarted and
// killed.
type life struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	journal *journaltest.Log
	states  []journal.State // after each append
}

// step appends something legal, or lets something happen to the journal.
func (l *life) step() {
	switch l.random.IntN(40) {
	case 0: // a restart in order
		journaltest.MustClose(l.t, l.journal)
		l.open(l.journal.Dir)
	case 1: // a crash
		dir := readtest.CopyFolder(l.t, l.journal.Dir)
		journaltest.MustClose(l.t, l.journal)
		l.open(dir)
	case 2, 3:
		l.now = l.now.Add(journaltest.Day) // so that the next append begins a new segment
	case 4:
		journaltest.MustMaintain(l.t, l.journal)
	default:
		if _, err := l.journal.Append(l.drafts()...); err == nil {
			l.states = append(l.states, readtest.Snapshot(l.journal))
		}
	}
}

func (l *life) open(dir string) {
	l.journal = journaltest.OpenWith(l.t, eventlog.Config{Dir: dir, Now: func() time.Time {
		l.now = l.now.Add(time.Duration(l.random.IntN(3)) * time.Microsecond)
		return l.now
	}})
}

// drafts are legal more often than not.
func (l *life) drafts() []journal.Draft {
	job := 1 + l.random.Int64N(12)
	code := l.random.IntN(3)
	var status journal.Status
	attempt := 0
	l.journal.View(func(s *journal.State) { status, attempt = s.Job(job).Status, s.Job(job).Attempt })
	switch {
	case l.random.IntN(10) == 0:
		return []journal.Draft{{Job: 0, Payload: []journal.Payload{
			journal.Opened{Name: "w", Targets: map[string]int{"a": 1, "b": 2}},
			journal.Closed{},
			journal.Paused{Targets: []string{"a"}},
			journal.Continued{Targets: []string{"a"}},
			journal.TargetAdded{Target: "c", Concurrency: 3},
			journal.TargetRemoved{Target: "b"},
		}[l.random.IntN(6)]}}
	case status.Ended() && l.random.IntN(8) == 0:
		return []journal.Draft{{Job: job, Payload: journal.Conflict{}}, {Job: job, Payload: journal.Ignored{Reason: "x"}}}
	case status.Ended():
		return []journal.Draft{{Job: job, Payload: journal.Accepted{Target: "a", Token: "@" + string(rune('a'+code))}}}
	case l.random.IntN(10) == 0:
		return []journal.Draft{{Job: job, Payload: journal.Conflict{Wanted: "running"}}}
	case status == journal.StatusAccepted:
		return []journal.Draft{{Job: job, Payload: journal.Running{Attempt: attempt + 1, Runner: "r"}}}
	case status == journal.StatusStarting:
		return []journal.Draft{{Job: job, Payload: journal.Started{Pid: 7, BootID: "b"}}}
	}
	return []journal.Draft{{Job: job, Payload: journal.Done{Result: "ok", Code: &code, Stdout: journal.Output{Kept: []byte("out"), Size: 3}}}}
}

// What replay says of any moment is what was true then, whatever happened to the journal since.
func TestStateIsWhatItWas(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	l := &life{t: t, random: rand.New(rand.NewPCG(seed, 0)), now: readtest.Base}
	l.open(t.TempDir())
	for len(l.states) < 600 {
		l.step()
	}
	journaltest.MustMaintain(t, l.journal)
	if _, segments := l.journal.Usage(); segments < 5 {
		t.Fatalf("%d segments only", segments)
	}
	r := readtest.OpenReader(t, l.journal.Dir)
	must.Get(readtest.VerifyAll(t.Context(), r))(t)
	last := l.states[len(l.states)-1].Time
	for n := range 300 {
		at := readtest.Base.Add(time.Duration(l.random.Int64N(int64(last.Sub(readtest.Base)) + 2000)))
		// The newest state at or before the time.
		i := sort.Search(len(l.states), func(i int) bool { return l.states[i].Time.After(at) })
		want := journal.State{}
		if i > 0 {
			want = l.states[i-1]
		}
		got, err := readtest.StateAt(t.Context(), r, at)
		if err != nil {
			t.Fatalf("at %v: %v", at, err)
		}
		if diff := cmp.Diff(want.Unfinished(), got.Unfinished()); diff != "" || want.Seq != got.Seq || want.Hash != got.Hash || want.Name != got.Name || want.Open != got.Open {
			t.Fatalf("at %v: event %d, want %d: %s", at, got.Seq, want.Seq, diff)
		}
		must.Equal(t, cmp.Diff(want.Targets, got.Targets, cmpopts.EquateEmpty()), "", "at %v", at)
		if n%10 == 0 {
			checkJobs(t, r, at, got)
		}
	}
}

// checkJobs asserts that Jobs gives what State holds, each job once.
func checkJobs(t *testing.T, r *replay.Reader, at time.Time, state *journal.State) {
	t.Helper()
	var got, want []journal.Job
	for job, err := range r.Jobs(t.Context(), at) {
		must.Do(t, err)
		got = append(got, job)
	}
	for _, job := range state.Jobs {
		if job.Status != journal.StatusNone {
			want = append(want, *job)
		}
	}
	byID := func(a, b journal.Job) int { return int(a.ID - b.ID) }
	slices.SortFunc(got, byID)
	slices.SortFunc(want, byID)
	must.Equal(t, cmp.Diff(want, got), "", "at %v: Jobs", at)
}

// A job is given once, as it stands at the end: a retry, or an ignoring, that is taken back leaves what was before
// it; a row that comes back has the plan of the run that ended last, as it was planned anew where its schedule was
// edited.
func TestJobsAreGivenOnce(t *testing.T) {
	t.Parallel()
	j := journaltest.OpenWith(t, eventlog.Config{Dir: t.TempDir(), Now: readtest.Ticking()})
	accepted, running, failed := journal.Accepted{Target: "a", Token: "@1"}, journal.Running{Attempt: 1}, journal.Done{Result: "fail"}
	retried := journal.Retried{Target: "a", From: journal.RowDone, To: journal.RowWaiting, Result: "fail", Finished: 7, By: "me"}
	back := journal.Conflict{Wanted: journal.WantedRetried, Reason: "the row is done"}
	ran := []journal.Payload{accepted, running, failed}
	ignored, undone := journal.Ignored{Reason: "x"}, journal.Conflict{Wanted: journal.RowIgnored, Reason: "the row is manual"}
	at := func(second int64) *journal.Again {
		return &journal.Again{RunAt: second, PlannedAt: second, Why: journal.AgainSchedule}
	}
	delayed := journal.Accepted{Target: "b", Token: "@1", From: journal.RowDelayed, Plan: &journal.Plan{RunAt: 5}, PlannedAt: 5}
	recurs := journal.Done{Result: "ok", Again: at(100)}
	planned := journal.Planned{Target: "b", To: *at(200), Reason: "missed"}
	replanned, late := journal.Replanned{Token: "@1", Again: at(300)}, journal.Replanned{Token: "@0", Again: at(400)}
	came := []journal.Payload{delayed, running, recurs}
	stories := []struct {
		events []journal.Payload
		want   journal.Status
		again  int64 // 0: it does not come back
	}{
		{append(ran, retried), journal.StatusRetried, 0},
		{append(ran, retried, back), journal.StatusDone, 0},
		{append(ran, retried, back, retried), journal.StatusRetried, 0},
		{append(ran, retried, accepted), journal.StatusAccepted, 0},
		{append(ran, retried, accepted, running, journal.Done{Result: "ok"}), journal.StatusDone, 0},
		{[]journal.Payload{retried}, journal.StatusRetried, 0},
		{[]journal.Payload{retried, back}, journal.StatusConflict, 0},
		{append(ran, journal.SetAside{Wanted: "done"}, retried, journal.SetAside{Wanted: "done"}, back, journal.SetAside{Wanted: "done"}), journal.StatusDone, 0},
		{[]journal.Payload{ignored, retried, back}, journal.StatusIgnored, 0},
		{append(ran, retried, ignored), journal.StatusIgnored, 0},
		{append(ran, retried, accepted, running, failed, retried, back), journal.StatusDone, 0},
		{append(ran, journal.Conflict{Wanted: journal.RowDone, Token: "@1"}, retried, back, back), journal.StatusDone, 0},

		{[]journal.Payload{ignored}, journal.StatusIgnored, 0},
		{[]journal.Payload{ignored, undone}, journal.StatusConflict, 0},
		{[]journal.Payload{ignored, undone, accepted, running, failed}, journal.StatusDone, 0},
		{[]journal.Payload{ignored, ignored, journal.SetAside{Wanted: "done"}}, journal.StatusIgnored, 0},
		{[]journal.Payload{ignored, accepted}, journal.StatusAccepted, 0},

		{came, journal.StatusDone, 100},
		{append(came, replanned), journal.StatusDone, 300},
		{append(came, journal.Replanned{Token: "@1", Note: "unreadable"}), journal.StatusDone, 0},
		{[]journal.Payload{planned}, journal.StatusPlanned, 200},
		{[]journal.Payload{planned, planned}, journal.StatusPlanned, 200},
		{append([]journal.Payload{planned}, came...), journal.StatusDone, 100},
		{append(came, planned), journal.StatusPlanned, 200},
		{append(came, replanned, delayed), journal.StatusAccepted, 0},
		{append(came, replanned, delayed, running, recurs, replanned), journal.StatusDone, 300},
		{append(came, late), journal.StatusDone, 100},
		{append(came, delayed, late, running, recurs), journal.StatusDone, 100},
		{append(came, journal.SetAside{Wanted: "delayed"}, replanned, journal.SetAside{Wanted: "delayed"}), journal.StatusDone, 300},
		{append([]journal.Payload{late}, came...), journal.StatusDone, 100},
		{append(came, replanned, ignored), journal.StatusIgnored, 0},
	}
	for i, story := range stories {
		for _, payload := range story.events {
			journaltest.MustAppend(t, j, journal.Draft{Job: int64(i + 1), Payload: payload})
		}
	}
	journaltest.MustClose(t, j)
	r := readtest.OpenReader(t, j.Dir)
	seen := map[int64]bool{}
	for job, err := range r.Jobs(t.Context(), time.Time{}) {
		must.Do(t, err)
		story := stories[job.ID-1]
		var again int64
		if job.Again != nil {
			again = job.Again.RunAt
		}
		if job.Status != story.want || again != story.again || seen[job.ID] {
			t.Errorf("job %d is %q and comes back at %d, want %q, %d, once", job.ID, job.Status, again, story.want, story.again)
		}
		if seen[job.ID] = true; job.Status == journal.StatusDone && job.Token != "@1" {
			t.Errorf("job %d has lost its claim: %+v", job.ID, job)
		}
	}
	check.Equal(t, len(seen), len(stories), "jobs were given, of …: %v", seen)
	state := must.Get(readtest.StateAt(t.Context(), r, time.Time{}))(t)
	for i, story := range stories {
		if got := state.Job(int64(i + 1)).Status; got != story.want && got != journal.StatusNone {
			t.Errorf("job %d is %q in the state, want %q", i+1, got, story.want)
		}
	}
	of := readtest.Events(t, r, journal.Filter{Target: "b", Kinds: []journal.Kind{journal.KindPlanned}})
	check.Equal(t, len(of), 5, "planned events are of target b")
}

// Jobs that are under way before a time are found from the checkpoint of its segment on.
func TestUnderWayBeforeATime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begin := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	now := begin
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: dir, SegmentAge: 2 * time.Second, Now: func() time.Time { return now }}))(t)
	one := func(second int, job int64, payload journal.Payload) {
		t.Helper()
		now = begin.Add(time.Duration(second) * time.Second)
		must.Get(j.Append(journal.Draft{Job: job, Payload: payload}))(t)
	}
	accepted := journal.Accepted{Target: "a", Token: "@1"}
	one(1, 1, accepted)
	one(2, 2, accepted)
	one(4, 1, journal.Released{Reason: "r"})
	one(5, 3, accepted)
	one(9, 2, journal.Released{Reason: "r"})
	must.Do(t, j.Close())
	r := must.Get(replay.Open(dir))(t)
	for second, want := range map[int]string{0: "", 1: "", 2: "[1]", 3: "[1 2]", 4: "[1 2]", 5: "[2]", 6: "[2 3]", 9: "[2 3]", 10: "[3]"} {
		at := begin.Add(time.Duration(second) * time.Second)
		jobs := must.Get(r.UnderWay(t.Context(), at))(t)
		check.Equal(t, idsOf(jobs), want, "before second %d", second)
	}
	if jobs, err := r.UnderWay(t.Context(), time.Time{}); err != nil || len(jobs) > 0 {
		t.Errorf("where the history begins: %v, %v", jobs, err)
	}
}

// Regression: nobody knew of which target a row was that was ignored.
func TestIgnoredRowsAreOfTheirTarget(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: dir}))(t)
	must.Get(j.Append(journal.Draft{Job: 1, Payload: journal.Ignored{Target: "a", Reason: "x"}}, journal.Draft{Job: 2, Payload: journal.Ignored{Reason: "x"}}))(t)
	must.Do(t, j.Close())
	r := must.Get(replay.Open(dir))(t)
	if of := readtest.Events(t, r, journal.Filter{Target: "a"}); len(of) != 1 || of[0].Job != 1 {
		t.Errorf("of target a are %+v", of)
	}
	for job, err := range r.Jobs(t.Context(), time.Time{}) {
		if err != nil || job.ID == 1 && job.Target != "a" || job.ID == 2 && job.Target != "" {
			t.Errorf("%+v, %v", job, err)
		}
	}
}

func idsOf(jobs []journal.Job) string {
	if len(jobs) == 0 {
		return ""
	}
	ids := make([]int64, len(jobs))
	for i, job := range jobs {
		ids[i] = job.ID
	}
	return fmt.Sprint(ids)
}

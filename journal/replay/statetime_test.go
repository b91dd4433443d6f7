package replay_test

import (
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
	"jobd/journal/replay"
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
		dir := journaltest.CopyFolder(l.t, l.journal.Dir)
		journaltest.MustClose(l.t, l.journal)
		l.open(dir)
	case 2, 3:
		l.now = l.now.Add(journaltest.Day) // so that the next append begins a new segment
	case 4:
		journaltest.MustMaintain(l.t, l.journal)
	default:
		if _, err := l.journal.Append(l.drafts()...); err == nil {
			l.states = append(l.states, journaltest.Snapshot(l.journal))
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
	l := &life{t: t, random: rand.New(rand.NewPCG(seed, 0)), now: journaltest.Base}
	l.open(t.TempDir())
	for len(l.states) < 600 {
		l.step()
	}
	journaltest.MustMaintain(t, l.journal)
	if _, segments := l.journal.Usage(); segments < 5 {
		t.Fatalf("%d segments only", segments)
	}
	r := journaltest.OpenReader(t, l.journal.Dir)
	if _, err := journaltest.VerifyAll(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	last := l.states[len(l.states)-1].Time
	for n := range 1000 {
		at := journaltest.Base.Add(time.Duration(l.random.Int64N(int64(last.Sub(journaltest.Base)) + 2000)))
		// The newest state at or before the time.
		i := sort.Search(len(l.states), func(i int) bool { return l.states[i].Time.After(at) })
		want := journal.State{}
		if i > 0 {
			want = l.states[i-1]
		}
		got, err := r.State(t.Context(), at)
		if err != nil {
			t.Fatalf("at %v: %v", at, err)
		}
		if diff := cmp.Diff(want.Unfinished(), got.Unfinished()); diff != "" || want.Seq != got.Seq || want.Hash != got.Hash || want.Name != got.Name || want.Open != got.Open {
			t.Fatalf("at %v: event %d, want %d: %s", at, got.Seq, want.Seq, diff)
		}
		if diff := cmp.Diff(want.Targets, got.Targets, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("at %v: %s", at, diff)
		}
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
		if err != nil {
			t.Fatal(err)
		}
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("at %v: Jobs: %s", at, diff)
	}
}

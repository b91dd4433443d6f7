package replay_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
)

// history is a journal with everything a filter may ask for.
func history(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	j := journaltest.OpenWith(t, eventlog.Config{Dir: dir, Now: journaltest.Ticking()})
	claim := func(job int64, target string) journal.Draft {
		return journal.Draft{Job: job, Payload: journal.Accepted{Target: target}}
	}
	journaltest.MustAppend(t, j, journal.Draft{Job: 0, Payload: journal.Opened{Name: "w", Targets: map[string]int{"a": 1, "3": 3}}})
	journaltest.MustAppend(t, j, claim(1, "a"), claim(2, "b"))
	journaltest.MustAppend(t, j, journal.Draft{Job: 1, Payload: journal.Running{Attempt: 1}}, journal.Draft{Job: 2, Payload: journal.Released{}})
	journaltest.MustAppend(t, j, journal.Draft{Job: 1, Payload: journal.Started{Pid: 7}})
	journaltest.MustAppend(t, j, journal.Draft{Job: 0, Payload: journal.Paused{Targets: []string{"a", "b"}}})
	journaltest.MustAppend(t, j, journal.Draft{Job: 1, Payload: journal.Done{Result: "ok", Stdout: journal.Output{Kept: []byte("hello"), Size: 5}}})
	journaltest.MustAppend(t, j, claim(1, "b"), claim(2, "a")) // claimed again, for other targets
	journaltest.MustAppend(t, j, journal.Draft{Job: 0, Payload: journal.TargetAdded{Target: "b", Concurrency: 3, By: "me:7"}})
	journaltest.MustAppend(t, j, journal.Draft{Job: 0, Payload: journal.Continued{By: "me"}}, journal.Draft{Job: 1, Payload: journal.Running{Attempt: 1}}, journal.Draft{Job: 3, Payload: journal.Ignored{}})
	journaltest.MustAppend(t, j, journal.Draft{Job: 1, Payload: journal.Conflict{}}, journal.Draft{Job: 2, Payload: journal.Conflict{}})
	journaltest.MustAppend(t, j, journal.Draft{Job: 0, Payload: journal.TargetRemoved{Target: "a"}}, journal.Draft{Job: 0, Payload: journal.ConcurrencySet{Target: "b", Concurrency: 3}}, journal.Draft{Job: 0, Payload: journal.Closed{}})
	journaltest.MustClose(t, j)
	return dir
}

// naive is what a filter means.
func naive(all []journal.Event, f journal.Filter) []journal.Event {
	targets := make(map[int64]string)
	var selected []journal.Event
	for _, e := range all {
		if p, ok := e.Payload.(journal.Accepted); ok {
			targets[e.Job] = p.Target
		}
		if e.Seq > f.After && (f.Job == 0 || e.Job == f.Job) &&
			(len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind())) &&
			(f.Target == "" || e.Job != 0 && targets[e.Job] == f.Target || e.Job == 0 && isAbout(e.Payload, f.Target)) &&
			(f.Result == "" && f.By == "" || f.Says(e.Payload)) &&
			(f.Since.IsZero() || !e.Time.Before(f.Since)) && (f.Until.IsZero() || e.Time.Before(f.Until)) {
			selected = append(selected, e)
		}
	}
	if f.Last > 0 {
		selected = selected[max(0, len(selected)-f.Last):]
	}
	return selected
}

func isAbout(p journal.Payload, target string) bool {
	switch p := p.(type) {
	case journal.Opened:
		_, ok := p.Targets[target]
		return ok
	case journal.Paused:
		return slices.Contains(p.Targets, target)
	case journal.Continued:
		return slices.Contains(p.Targets, target)
	case journal.TargetAdded:
		return p.Target == target
	case journal.TargetRemoved:
		return p.Target == target
	case journal.ConcurrencySet:
		return p.Target == target
	}
	return false
}

func TestFilters(t *testing.T) {
	t.Parallel()
	r := journaltest.OpenReader(t, history(t))
	all := journaltest.Events(t, r, journal.Filter{Output: true})
	if len(all) != 19 {
		t.Fatalf("%d events", len(all))
	}
	rapid.Check(t, func(rt *rapid.T) {
		at := rapid.Custom(func(rt *rapid.T) time.Time {
			if rapid.Bool().Draw(rt, "none") {
				return time.Time{}
			}
			seconds := rapid.IntRange(-2, 14).Draw(rt, "seconds")
			return journaltest.Base.Add(time.Duration(seconds)*time.Second + time.Duration(rapid.SampledFrom([]int{-1, 0, 1, 999, 1000}).Draw(rt, "ns")))
		})
		f := journal.Filter{
			After:  rapid.SampledFrom([]uint64{0, 0, 0, 1, 7, 20, 21}).Draw(rt, "after"),
			Job:    rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 3, 4}).Draw(rt, "job"),
			Kinds:  rapid.SliceOfN(rapid.SampledFrom([]journal.Kind{journal.KindAccepted, journal.KindRunning, journal.KindConflict, journal.KindPaused, journal.KindClosed, "unknown"}), 0, 3).Draw(rt, "kinds"),
			Target: rapid.SampledFrom([]string{"", "", "a", "b", "3", "c"}).Draw(rt, "target"),
			Since:  at.Draw(rt, "since"), Until: at.Draw(rt, "until"),
			Last:   rapid.SampledFrom([]int{0, 0, 1, 3, 100}).Draw(rt, "last"),
			Result: rapid.SampledFrom([]string{"", "", "ok", "fail"}).Draw(rt, "result"),
			By:     rapid.SampledFrom([]string{"", "", "me"}).Draw(rt, "by"),
			Output: true,
		}
		if diff := cmp.Diff(naive(all, f), journaltest.Events(t, r, f)); diff != "" {
			rt.Fatalf("%+v: -naive +got: %s", f, diff)
		}
	})
}

func TestStateAtATime(t *testing.T) {
	t.Parallel()
	r := journaltest.OpenReader(t, history(t))
	for _, c := range []struct {
		name string
		at   time.Time
		job1 journal.Status
		job2 journal.Status
		seq  uint64
	}{
		{"before the first event", journaltest.Base.Add(-1), journal.StatusNone, journal.StatusNone, 0},
		{"at an event", journaltest.Base.Add(time.Second), journal.StatusAccepted, journal.StatusAccepted, 3},
		{"a nanosecond before an event", journaltest.Base.Add(2*time.Second - 1), journal.StatusAccepted, journal.StatusAccepted, 3},
		{"after an event", journaltest.Base.Add(2*time.Second + 1), journal.StatusStarting, journal.StatusReleased, 5},
		{"ended", journaltest.Base.Add(5 * time.Second), journal.StatusDone, journal.StatusReleased, 8},
		{"now", time.Time{}, journal.StatusConflict, journal.StatusConflict, 19},
	} {
		state, err := r.State(t.Context(), c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got1, got2 := state.Job(1).Status, state.Job(2).Status; got1 != c.job1 || got2 != c.job2 || state.Seq != c.seq {
			t.Errorf("%s: jobs %q and %q at event %d, want %q and %q at %d", c.name, got1, got2, state.Seq, c.job1, c.job2, c.seq)
		}
	}
}

func TestClaimOfAJob(t *testing.T) {
	t.Parallel()
	j := journaltest.OpenTest(t, t.TempDir())
	for n := range 3 {
		journaltest.MustAppend(t, j, journal.Draft{Job: 1, Payload: journal.Accepted{Target: "t", Token: fmt.Sprint(n)}}, journal.Draft{Job: 1, Payload: journal.Released{}})
	}
	for seq, want := range map[uint64]string{2: "0", 3: "0", 4: "1", 5: "1", 6: "2", 99: "2"} {
		if claim, err := j.Claim(t.Context(), 1, seq); err != nil || claim.Token != want {
			t.Errorf("before %d: %+v, %v", seq, claim, err)
		}
	}
	if _, err := j.Claim(t.Context(), 1, 1); err == nil {
		t.Error("a claim before the first event")
	}
	if _, err := j.Claim(t.Context(), 2, 99); err == nil {
		t.Error("a claim of a job that never was")
	}
}

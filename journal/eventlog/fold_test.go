package eventlog

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"jobd/journal"
)

// drafts draws one append, legal or not.
func drafts() *rapid.Generator[[]journal.Draft] {
	one := rapid.Custom(func(t *rapid.T) journal.Draft {
		text := rapid.SampledFrom([]string{"a", "b", "\xff\xfe bad", "�", "日本", `\ufffd`, "<&>\x00"}).Draw(t, "text")
		code := rapid.IntRange(0, 255).Draw(t, "code")
		payload := rapid.SampledFrom([]journal.Payload{
			journal.Accepted{Target: text, Token: text, Manual: code%2 == 0},
			journal.Ignored{Reason: text},
			journal.Released{Reason: text},
			journal.Running{Attempt: 1 + code%3},
			journal.Started{Pid: code, StartTime: 1<<64 - 1, BootID: text},
			journal.Signal{Signo: code, By: text},
			journal.Done{Result: text, Code: &code, Signal: text, Stdout: journal.Output{Kept: []byte(text), Size: 9}},
			journal.Conflict{Found: &journal.Row{Target: text}, Wanted: text},
			journal.Opened{Name: text, Targets: map[string]int{text: code}},
			journal.Closed{Reason: text},
			journal.Paused{Targets: []string{text}},
			journal.TargetAdded{Target: text, Concurrency: code},
			journal.TargetRemoved{Target: text},
			journal.ConcurrencySet{Target: text, Concurrency: code},
		}).Draw(t, "payload")
		return journal.Draft{Job: rapid.Int64Range(0, 3).Draw(t, "job"), Payload: payload}
	})
	return rapid.SliceOfN(one, 0, 3)
}

// Whatever is appended: an append is there as a whole or leaves no trace, the state in
// memory is the fold over the disk, and forgetting what has ended changes no answer.
func TestStateIsTheFoldOverTheDisk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		j := openTest(t, t.TempDir())
		model := &journal.State{KeepEnded: true}
		for _, batch := range rapid.SliceOfN(drafts(), 1, 25).Draw(rt, "appends") {
			before := snapshot(j)
			appended, err := j.Append(batch...)
			after := snapshot(j)
			if err != nil {
				if diff := cmp.Diff(before, after); diff != "" || len(appended) > 0 {
					rt.Fatalf("a refused append left a trace: %s", diff)
				}
				continue
			}
			if len(appended) != len(batch) {
				rt.Fatalf("%d events of %d drafts", len(appended), len(batch))
			}
			for i, e := range appended {
				if e.Seq != before.Seq+uint64(i)+1 || e.Job != batch[i].Job || e.Kind() != batch[i].Payload.Kind() {
					rt.Fatalf("event %+v of draft %+v", e, batch[i])
				}
				if err := model.Apply(e); err != nil {
					rt.Fatalf("the model: %v", err)
				}
			}
		}
		folded, err := verifyAll(t.Context(), j.reader)
		if err != nil {
			rt.Fatalf("fold: %v", err)
		}
		memory := snapshot(j)
		ignoreNil := cmp.Transformer("empty", func(m map[int64]*journal.Job) int { return len(m) })
		if diff := cmp.Diff(memory.Unfinished(), folded.Unfinished()); diff != "" {
			rt.Fatalf("jobs: -memory +disk: %s", diff)
		}
		if diff := cmp.Diff(memory.Unfinished(), model.Unfinished()); diff != "" {
			rt.Fatalf("jobs: -memory +all kept: %s", diff)
		}
		if len(memory.Targets) == 0 && len(folded.Targets) == 0 {
			memory.Targets, folded.Targets = nil, nil
		}
		if diff := cmp.Diff(memory, *folded, ignoreNil); diff != "" {
			rt.Fatalf("-memory +disk: %s", diff)
		}
		mustClose(t, j)
	})
}

// A job's event without a job is refused, also behind an append of nothing, and leaves the others
// alone.
func TestAJobsEventNeedsAJob(t *testing.T) {
	t.Parallel()
	group := []*appending{newAppending(nil), newAppending([]journal.Draft{{Job: 0, Payload: journal.Accepted{Target: "a", Manual: true, Token: "a"}}}), newAppending(wholeLife(1))}
	staged := stage(&journal.State{}, journal.Hash{}, group, instant{wall: base})
	illegal := new(journal.IllegalError)
	if group[0].err != nil || !errors.As(group[1].err, &illegal) || group[2].err != nil || len(staged.events) != 4 {
		t.Errorf("%v, %v, %v; %d events", group[0].err, group[1].err, group[2].err, len(staged.events))
	}
}

// Appends that share a commit fare as they would one after the other: one that is
// refused half-way leaves no trace for the next.
func TestSharedCommitIsLikeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var together, alone []*appending
		for _, batch := range rapid.SliceOfN(drafts(), 2, 25).Draw(t, "appends") {
			together = append(together, newAppending(batch))
			alone = append(alone, newAppending(batch))
		}
		stage(&journal.State{}, journal.Hash{}, together, instant{wall: base})
		state := &journal.State{}
		for i, a := range alone {
			for _, e := range stage(state, state.Hash, alone[i:i+1], instant{wall: base}).events {
				if err := state.Apply(e); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(a.events, together[i].events, cmpopts.EquateEmpty()); diff != "" || (a.err == nil) != (together[i].err == nil) {
				t.Fatalf("append %d: alone %v, together %v: %s", i, a.err, together[i].err, diff)
			}
		}
	})
}

// A pointer has its type's kind, but would not be folded.
func TestPointersAreNoPayloads(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	for name, d := range map[string]journal.Draft{
		"of a job":      {Job: 1, Payload: &journal.Accepted{Target: "t"}},
		"of the worker": {Job: 0, Payload: &journal.Opened{Name: "w"}},
		"nil":           {Job: 1, Payload: nil},
	} {
		if _, err := j.Append(d); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if state := snapshot(j); state.Seq != 0 {
		t.Fatalf("the journal holds %d events", state.Seq)
	}
}

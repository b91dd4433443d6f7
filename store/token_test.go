package store_test

import (
	"context"
	"errors"
	"testing"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store/storetest"
)

// racing is a journal in which the claim loop accepts a job anew right before the mirror's next
// append.
type racing struct {
	*eventlog.Log
	claim journal.Draft
}

func (r *racing) Append(drafts ...journal.Draft) ([]journal.Event, error) {
	if claim := r.claim; claim.Payload != nil {
		r.claim = journal.Draft{}
		if _, err := r.Log.Append(claim); err != nil {
			return nil, err
		}
	}
	return r.Log.Append(drafts...)
}

// A row was reset by hand while it ran, the database killed and started again: the mirror's
// conflict of the old claim ended the new one in the journal. Its started and done were refused,
// and the row stayed running for ever.
func TestAnOldClaimsConflictDoesNotEndANewClaim(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("")
	add(t, j, accepted(1, "@aaaa00001"), running(1), done(1))
	table.Put(1, journal.RowWaiting, "") // reset by hand, before the mirror came
	table.OnApply = func() { table.Rows[1].Status, table.Rows[1].Owner = journal.RowAccepted, "@aaaa00002" }
	source := &racing{Log: j, claim: accepted(1, "@aaaa00002")}
	m := mirrorOf(source, j, table)
	run(t, m)
	await(t, "the old claim's end", m.Shown(3, 1))
	conflicts := of[journal.Conflict](t, j)
	if len(conflicts) != 1 || conflicts[0].Token != "@aaaa00001" {
		t.Fatalf("conflicts %+v, want one of the old claim", conflicts)
	}
	table.Change(func() { table.OnApply = nil })
	// Nothing of the new claim is refused, and its row ends.
	newest := add(t, j, running(1),
		journal.Draft{Job: 1, Payload: journal.Started{Pid: 7}},
		journal.Draft{Job: 1, Payload: journal.Done{Result: "ok", Token: "@aaaa00002"}})
	await(t, "the new claim's end", m.Shown(newest, 1))
	if got := table.Read(1); got != "done " {
		t.Errorf("the row is %q, want done", got)
	}
}

// forgetful is a journal whose history gives no claims: it has lost them to retention, or can't be read.
type forgetful struct {
	*eventlog.Log
	why error
}

func (f forgetful) Claim(context.Context, int64, uint64) (journal.Accepted, error) {
	return journal.Accepted{}, f.why
}

// A job older than the retention, and a restart: the worker ended with exit 1 when that job ended,
// and at every start from then on, because the mirror looked for a claim in a history that does not
// have it any more.
func TestAClaimThatRetentionRemovedDoesNotEndTheMirror(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		end  journal.Done
	}{
		{"its end names the claim", journal.Done{Result: "ok", Token: token(1)}},
		{"its end is of an older version", journal.Done{Result: "ok"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j, table := openJournal(t), storetest.NewMemory("")
			table.Put(1, journal.RowRunning, token(1))
			j.SetPosition(add(t, j, accepted(1, token(1)), running(1)))
			m := mirrorOf(forgetful{j, journal.ErrNoClaim}, j, table)
			run(t, m)
			await(t, "the start", m.Shown(2, 0))
			// The mirror of this process knows the claim from the state.
			newest := add(t, j, journal.Draft{Job: 1, Payload: test.end})
			await(t, "the end", m.Shown(newest, 1))
			if got := table.Read(1); got != "done " {
				t.Errorf("the row is %q, want done", got)
			}
		})
	}
}

// Where nothing tells the claim, the row is not touched: the journal says why, and the mirror goes
// on.
func TestAnEndWithoutItsClaimIsAConflict(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("")
	table.Put(1, journal.RowRunning, token(1))
	table.Put(2, journal.RowAccepted, token(2))
	add(t, j, accepted(1, token(1)), running(1))
	j.SetPosition(2)
	newest := add(t, j, done(1), accepted(2, token(2)), running(2)) // by an older version, before the start
	m := mirrorOf(forgetful{j, journal.ErrNoClaim}, j, table)
	run(t, m)
	await(t, "all", m.Shown(newest, 0))
	if got := table.Read(1); got != "running "+token(1) {
		t.Errorf("row 1 is %q, want it untouched", got)
	}
	if got := table.Read(2); got != "running "+token(2) {
		t.Errorf("row 2 is %q, want running", got)
	}
	if got := of[journal.Conflict](t, j); len(got) != 1 || got[0].Reason == "" || got[0].Wanted != journal.RowDone {
		t.Errorf("conflicts %+v, want one that says why", got)
	}
}

// A conflict without a token, of an event whose claim nobody knows, would end the claim that is
// under way now.
func TestAnEndWithoutItsClaimDoesNotEndALaterClaim(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("")
	table.Put(1, journal.RowAccepted, "@aaaa00009")
	add(t, j, accepted(1, token(1)), running(1))
	j.SetPosition(2)
	newest := add(t, j, done(1), accepted(1, "@aaaa00009"))
	m := mirrorOf(forgetful{j, journal.ErrNoClaim}, j, table)
	// The later claim began in the same microsecond at the latest, so its time does not tell it
	// from the older one.
	run(t, m)
	await(t, "all", m.Shown(newest, 0))
	j.View(func(s *journal.State) {
		if got := s.Job(1); got.Status != journal.StatusAccepted || got.Token != "@aaaa00009" {
			t.Errorf("the job is %+v, want the later claim untouched", got)
		}
	})
	if n := len(of[journal.Conflict](t, j)); n != 0 {
		t.Errorf("%d conflicts", n)
	}
}

// A history that can't be read is not a claim that is missing.
func TestAHistoryThatCannotBeReadEndsTheMirror(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("")
	add(t, j, accepted(1, token(1)), running(1))
	j.SetPosition(2)
	add(t, j, done(1))
	broken := errors.New("input/output error")
	m := mirrorOf(forgetful{j, broken}, j, table)
	if err := m.Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("Run: %v, want the journal's failure", err)
	}
}

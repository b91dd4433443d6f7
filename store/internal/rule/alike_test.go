package rule_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// shown is a table that shows all that there is of a job's output.
type shown struct{ dialect }

func (shown) Output(done *journal.Done) (stdout, stderr string) {
	return fmt.Sprintf("%q %d", done.Stdout.Kept, done.Stdout.Size), fmt.Sprintf("%q %d", done.ShownStderr().Kept, done.ShownStderr().Size)
}

// What changes that are alike make of their rows is written once for all of them: a column that only
// one of them sets so would get the other one's value. So each part of a change is replaced in turn.
func TestChangesThatAreAlikeMakeTheSameOfTheirRows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, other := anyChange(true).Draw(t, "a"), anyChange(false).Draw(t, "other")
		for i := range reflect.TypeFor[store.Change]().NumField() {
			b := a
			if into := reflect.ValueOf(&b).Elem().Field(i); into.CanSet() {
				into.Set(reflect.ValueOf(other).Field(i))
			}
			compare(t, a, b)
		}
		for i := range reflect.TypeFor[journal.Done]().NumField() {
			if a.Done == nil || other.Done == nil {
				break
			}
			b, done := a, *a.Done
			reflect.ValueOf(&done).Elem().Field(i).Set(reflect.ValueOf(*other.Done).Field(i))
			b.Done = &done
			compare(t, a, b)
		}
	})
}

// compare compares what two changes make of their rows, if they are said to be alike.
func compare(t *rapid.T, a, b store.Change) {
	t.Helper()
	if rule.CheckAll([]store.Change{a, b}) != nil || !rule.Alike(&a, &b) {
		return
	}
	type made struct {
		Set, Guard, Token string
		Args, More        []any
	}
	for _, d := range []shown{{dialect{owner: "sig"}}, {dialect{owner: "ran_by"}}, {dialect{owner: "sig", uses: all}}} {
		of := func(c store.Change) (m made) {
			m.Set, m.Args = rule.Set(rule.Write(c, "node-1", d), brackets)
			m.Guard, m.More = rule.Unedited(c, d.uses)
			m.Token = c.Token
			return m
		}
		if diff := cmp.Diff(of(a), of(b)); diff != "" {
			t.Errorf("they are alike:\n%+v\n%+v\n%s", a, b, diff)
		}
	}
}

func TestMostJobsEndAlike(t *testing.T) {
	t.Parallel()
	end := func(job int64, at time.Time) *store.Change {
		code := 0
		return &store.Change{
			Job: job, Token: "@1", Status: journal.RowDone, Start: at, Finish: at, Attempts: 1,
			Done: &journal.Done{Result: "ok", Code: &code, Elapsed: job, Token: "@1"},
		}
	}
	at := time.Unix(5, 0)
	if !rule.Alike(end(1, at), end(2, at.Add(time.Millisecond))) {
		t.Error("two that ended in one second are not alike")
	}
	if rule.Alike(end(1, at), end(2, at.Add(time.Second))) {
		t.Error("two that ended in different seconds are alike")
	}
}

// anyChange is a change that may have anything in it; a plain one mostly has no output, note or plan.
func anyChange(plain bool) *rapid.Generator[store.Change] {
	seldom := func(t *rapid.T, what string) bool {
		return rapid.IntRange(0, 19).Draw(t, what) == 0 || !plain && rapid.Bool().Draw(t, what)
	}
	text := rapid.SampledFrom([]string{"", "a", "b"})
	rare := rapid.Custom(func(t *rapid.T) string {
		if seldom(t, "any") {
			return text.Draw(t, "text")
		}
		return ""
	})
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		if at := rapid.Int64Range(0, 3).Draw(t, "halves"); at > 0 {
			return time.UnixMilli(500 * at)
		}
		return time.Time{}
	})
	output := rapid.Custom(func(t *rapid.T) journal.Output {
		kept := rare.Draw(t, "kept")
		o := journal.Output{Kept: []byte(kept), Size: int64(len(kept))}
		if seldom(t, "cut") {
			o.Size++
		}
		return o
	})
	small := rapid.Int64Range(0, 1)
	done := rapid.Custom(func(t *rapid.T) *journal.Done {
		d := &journal.Done{
			Result: rapid.SampledFrom([]string{"ok", "fail"}).Draw(t, "result"),
			Signal: text.Draw(t, "signal"), Reason: text.Draw(t, "reason"), Note: rare.Draw(t, "note"),
			Elapsed: small.Draw(t, "elapsed"), Token: text.Draw(t, "token"), Stdout: output.Draw(t, "stdout"), Stderr: output.Draw(t, "stderr"),
		}
		if rapid.Bool().Draw(t, "has a code") {
			code := rapid.IntRange(0, 1).Draw(t, "code")
			d.Code = &code
		}
		if seldom(t, "comes back") {
			d.Again = &journal.Again{RunAt: small.Draw(t, "run at")}
		}
		return d
	})
	statuses := []string{journal.RowDone, journal.RowDone, journal.RowRunning, journal.RowWaiting, journal.RowManual, journal.RowIgnored, journal.RowDelayed}
	return rapid.Custom(func(t *rapid.T) store.Change {
		c := store.Change{
			Job: 1, Token: text.Draw(t, "claim"), Attempts: small.Draw(t, "attempts"),
			Start: moment.Draw(t, "start"), Finish: moment.Draw(t, "finish"),
			Status: rapid.SampledFrom(statuses).Draw(t, "status"),
		}
		if c.Status == journal.RowDone || c.Status == journal.RowIgnored || c.Status == journal.RowDelayed || seldom(t, "has ended") {
			c.Done = done.Draw(t, "done")
		}
		if c.Status == journal.RowDelayed {
			c.Done.Again = &journal.Again{RunAt: small.Draw(t, "until")}
		}
		if seldom(t, "has a plan") {
			c.Plan = &journal.Plan{Schedule: text.Draw(t, "schedule"), Zone: text.Draw(t, "zone")}
		}
		return c
	})
}

package rule_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

var (
	errAway    = errors.New("away")
	errRefused = errors.New("refused")
	errRule    = errors.New("against a rule")
	errMoment  = errors.New("for now")
	errDubious = errors.New("a trigger's, or the table's")
)

// updater is a table in which some changes fail.
type updater struct {
	fails    map[int]error
	reduces  bool         // changes have outputs, which can be reduced
	cured    map[int]bool // the changes that are taken then
	slow     time.Duration
	broken   error // what the table itself says
	asked    int
	tries    int
	outcomes []store.Outcome
}

// divide applies n changes and gives the indexes by fate.
func (u *updater) divide(t *testing.T, n int) (fates map[store.Fate][]int, err error) {
	t.Helper()
	changes := make([]store.Change, n)
	if u.reduces {
		for i := range changes {
			changes[i].Done = &journal.Done{}
		}
	}
	a := rule.NewApplication(changes)
	settled := map[int]bool{}
	a.Try = func(_ context.Context, some []int) error {
		u.tries++
		time.Sleep(u.slow)
		for _, index := range some {
			if err := u.fails[index]; err != nil && !(u.cured[index] && a.Reduced[index]) {
				return err
			}
		}
		for _, index := range some {
			a.Met(index, true)
			settled[index] = true
		}
		return nil
	}
	a.Sort = func(err error) (fault rule.Fault, certain bool) {
		switch {
		case errors.Is(err, errAway):
			return rule.Unreachable, true
		case errors.Is(err, errRefused):
			return rule.Values, true
		case errors.Is(err, errRule):
			return rule.Rule, true
		case errors.Is(err, errDubious):
			return rule.Unusable, false
		}
		return rule.Moment, true
	}
	a.Check = func(context.Context) error {
		u.asked++
		return u.broken
	}
	err = a.Divide(t.Context(), a.All())
	u.outcomes = a.Outcomes
	fates = map[store.Fate][]int{}
	for i, outcome := range a.Outcomes {
		if settled[i] || outcome.Fate != store.Applied {
			fates[outcome.Fate] = append(fates[outcome.Fate], i)
		}
	}
	return fates, err
}

// Regression: one row whose update fails held up all others of its batch, again and again.
func TestDivideIsolatesWhatFails(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		updater updater
		want    map[store.Fate][]int
		tries   int // at most
	}{
		{"nothing", updater{}, map[store.Fate][]int{store.Applied: {0, 1, 2, 3, 4, 5, 6, 7}}, 1},
		{
			"one for now",
			updater{fails: map[int]error{3: errMoment}},
			map[store.Fate][]int{store.Applied: {0, 1, 2, 4, 5, 6, 7}, store.Held: {3}},
			7,
		},
		{
			"one for good, in all forms",
			updater{fails: map[int]error{3: errRefused}, reduces: true},
			map[store.Fate][]int{store.Applied: {0, 1, 2, 4, 5, 6, 7}, store.Refused: {3}},
			9,
		},
		{
			"one for good, but for a reduced form",
			updater{fails: map[int]error{3: errRefused}, reduces: true, cured: map[int]bool{3: true}},
			map[store.Fate][]int{store.Applied: {0, 1, 2, 3, 4, 5, 6, 7}},
			9,
		},
		{
			"one against a rule, which a reduced form would not meet",
			updater{fails: map[int]error{3: errRule}, reduces: true, cured: map[int]bool{3: true}},
			map[store.Fate][]int{store.Applied: {0, 1, 2, 4, 5, 6, 7}, store.Refused: {3}},
			7,
		},
		{
			"both",
			updater{fails: map[int]error{3: errRefused, 6: errMoment}},
			map[store.Fate][]int{store.Applied: {0, 1, 2, 4, 5, 7}, store.Refused: {3}, store.Held: {6}},
			11,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fates := must.Get(c.updater.divide(t, 8))(t)
			for fate := range store.Held + 1 {
				if !slices.Equal(fates[fate], c.want[fate]) {
					t.Errorf("fate %d: changes %v, want %v", fate, fates[fate], c.want[fate])
				}
			}
			if c.updater.tries > c.tries {
				t.Errorf("%d transactions, want %d at most", c.updater.tries, c.tries)
			}
		})
	}
}

func TestDivideFailsWithTheTable(t *testing.T) {
	t.Parallel()
	u := updater{fails: map[int]error{3: errAway}}
	if _, err := u.divide(t, 8); !errors.Is(err, errAway) || u.tries != 1 {
		t.Errorf("%v after %d tries, want the table's error at once", err, u.tries)
	}
}

// Where every row fails, not each of them is tried, and each has a chance at the next time.
func TestDivideIsBounded(t *testing.T) {
	t.Parallel()
	const n = 512
	fails := map[int]error{}
	for i := range n - 1 {
		fails[i] = errRefused // all but the last
	}
	u := updater{fails: fails}
	for range 2000 {
		u.tries = 0
		fates, err := u.divide(t, n)
		if err != nil || len(fates[store.Applied])+len(fates[store.Refused])+len(fates[store.Held]) != n {
			t.Fatalf("%v, %d changes have no outcome", err, n-len(u.outcomes))
		}
		if len(fates[store.Applied]) > 0 {
			return
		}
		if u.tries > 40 {
			t.Fatalf("%d transactions for nothing", u.tries)
		}
	}
	t.Error("the one row that can be updated never was")
}

// Where no row at all can be updated, a few of them show it.
func TestDivideGivesUpWhereNothingSucceeds(t *testing.T) {
	t.Parallel()
	const n = 512
	for _, failure := range []error{errRefused, errRule, errMoment} {
		u := updater{fails: map[int]error{}}
		for i := range n {
			u.fails[i] = failure
		}
		fates, err := u.divide(t, n)
		if err != nil || len(fates[store.Refused])+len(fates[store.Held]) != n || u.tries > 40 {
			t.Errorf("%v: %d transactions, %d refused, %d held, %v", failure, u.tries, len(fates[store.Refused]), len(fates[store.Held]), err)
		}
	}
}

// Where failing takes long, as waiting for a lock does, dividing ends in time.
func TestDivideHasPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := updater{fails: map[int]error{3: errMoment}, slow: time.Second}
		begun := time.Now()
		fates, err := u.divide(t, 512)
		if err != nil || len(fates[store.Applied])+len(fates[store.Held]) != 512 || !slices.Contains(fates[store.Held], 3) {
			t.Errorf("%v, %d applied, %d held", err, len(fates[store.Applied]), len(fates[store.Held]))
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// What may be the table's or a trigger's is the row's where the table itself works, which is asked
// once.
func TestDivideAsksTheTableWhatADubiousErrorMeans(t *testing.T) {
	t.Parallel()
	u := updater{fails: map[int]error{3: errDubious, 6: errDubious}}
	if fates, err := u.divide(t, 8); err != nil || !slices.Equal(fates[store.Held], []int{3, 6}) || u.asked != 1 {
		t.Errorf("%v, held %v, asked %d times; want rows 3 and 6 held, and one question", err, fates[store.Held], u.asked)
	}
	u = updater{fails: map[int]error{3: errDubious}, broken: errAway}
	if _, err := u.divide(t, 8); !errors.Is(err, errAway) || u.tries != 1 {
		t.Errorf("%v after %d tries, want the table's error at once", err, u.tries)
	}
}

// Workers share a row over time: what an update that met no row means where rows come back. Where
// they don't, it is a conflict, as ever.
func TestJudgeWhereRowsComeBack(t *testing.T) {
	t.Parallel()
	const token = "@abcd01234"
	plan := &journal.Plan{Schedule: "every 1d"}
	at := time.Unix(100, 0)
	done := store.Change{Job: 5, Token: token, Status: "done", Finish: at, Plan: plan, Done: &journal.Done{Result: "ok"}}
	again := store.Change{Job: 5, Token: token, Status: "delayed", Finish: at, Plan: plan, Done: &journal.Done{Result: "ok", Again: &journal.Again{}}}
	running := store.Change{Job: 5, Token: token, Status: "running", Start: at}
	row := func(status, owner string, started, finished int64) *rule.Found {
		return &rule.Found{Row: journal.Row{Job: 5, Status: status, Owner: owner, Plan: plan}, Started: started, Finished: finished, Result: "ok"}
	}
	edited := row("running", token, 90, 50)
	edited.Plan = &journal.Plan{Schedule: "every 2d"}
	moved := row("running", token, 90, 50)
	moved.Plan = &journal.Plan{Schedule: "every 1d", Zone: "Asia/Tokyo"}
	unplanned := again
	unplanned.Plan = nil
	reset := row("delayed", token, 90, 150)
	const applied, lost = "applied", "lost"
	for _, c := range []struct {
		name         string
		change       store.Change
		found        *rule.Found
		want, unused string
	}{
		{"came back before", again, row("delayed", "", 90, 100), applied, applied},
		{"came back, and is claimed since", again, row("accepted", "@other0000", 90, 100), applied, applied},
		{"came back, and has ended elsewhere since", again, row("delayed", "", 110, 120), applied, lost},
		{"came back, and is done elsewhere since", again, row("done", "", 110, 120), applied, lost},
		{"done, and the row shows a newer end", done, row("delayed", "", 110, 120), applied, lost},
		{"an older end", again, row("delayed", "", 60, 99), lost, lost},
		{"a newer end, and our token", again, reset, lost, lost},
		{"started before, and came back since", running, row("delayed", "", 100, 120), applied, lost},
		{"a newer start", running, row("running", "@other0000", 110, 100), lost, lost},
		{"an older start", running, row("running", "@other0000", 90, 50), lost, lost},
		{"edited", again, edited, "edited", "held"},
		{"its zone was edited", done, moved, "edited", "held"},
		{"edited, but its end is the last", unplanned, edited, "held", "held"},
		{"as the worker left it", again, row("running", token, 90, 50), "held", "held"},
		{"gone", again, nil, lost, lost},
		{"a release", store.Change{Status: "delayed", Token: token, Plan: plan}, edited, applied, applied},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := []string{word(rule.Judge(c.change, c.found, all)), word(rule.Judge(c.change, c.found, nil))}
			check.Diff(t, []string{c.want, c.unused}, got, "with and without columns")
		})
	}
	late := row("delayed", "", 110, 120)
	late.Created = 95
	again.Accepted = time.Unix(90, 0)
	if got := rule.Judge(again, late, all); got.Fate != store.Lost || !got.Newer {
		t.Errorf("another job with the same id: %+v", got)
	}
}

func word(o store.Outcome) string {
	switch {
	case o.Fate == store.Applied:
		return "applied"
	case o.Fate == store.Lost:
		return "lost"
	case o.Fate == store.Edited:
		return "edited"
	}
	return "held"
}

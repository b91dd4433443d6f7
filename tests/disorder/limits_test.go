package disorder

import (
	"strings"
	"testing"
)

// limits are schedules that violate a rule as long as something is not mended, and which. What the model lets pass
// for their sake stands in this file too. Whoever mends one moves its schedule to recorded.
var limits = []struct{ name, text, rule string }{
	{
		"a slot is kept by a job whose row was locked before it could be shown as running",
		"slots = 1; pause w2 a; insert a 2 long; wait 300; continue w2 a; lock 0 1; wait 1000; insert a 3 quick; quiet", "held up",
	},
	{
		"the journal says ignored of a row whose update was refused",
		"refuse 1644 claim 1 0; manual w1 c 1 quick; wait 1000", "diff",
	},
}

func TestLimitsAreWhatTheyWere(t *testing.T) {
	for _, c := range limits {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := parse(c.text)
			if err != nil {
				t.Fatal(err)
			}
			lane := <-lanes
			defer func() { lanes <- lane }()
			tr := tryStrictly(t, lane, s)
			if tr.rule() != c.rule {
				t.Errorf("violated is %q, not %q: is it mended?\n%s%s", tr.rule(), c.rule, tr.verdict(), howToRepeat(tr, s))
				return
			}
			tr.remove()
		})
	}
}

// behindAside tells whether a row was claimed by a worker one of whose slots is kept by a row of the same target
// that nobody can update now.
func (s *site) behindAside(r *row, table map[int64]record) bool {
	const mark = 5 // the part of a token that is the worker's
	found := table[r.id]
	if s.strict || found.status != "accepted" || len(found.sig) < mark {
		return false
	}
	for _, other := range s.rows {
		held := table[other.id]
		if (s.locked(other) || s.refused(other)) && other.target == r.target && len(held.sig) >= mark && held.sig[:mark] == found.sig[:mark] {
			return true
		}
	}
	return false
}

// difference is a line of journal diff.
type difference struct {
	Job         int64
	Want, Found struct{ Status string }
}

// isUncommitted tells whether a difference is a row that was to be ignored, at a site that refuses updates.
func (s *site) isUncommitted(d difference) bool {
	return !s.strict && s.refusing && d.Want.Status == "ignored" && d.Found.Status == "manual"
}

// isReduced tells whether a row lacks its code since the server refused it as a whole and then, when the refusal had
// just ended, took it in reduced form. It takes a race, so that no schedule in limits shows it each time.
func (s *site) isReduced(found record) bool {
	return !s.strict && s.refusing && found.code == "NULL" && !strings.Contains(found.stderr, "outcome unknown")
}

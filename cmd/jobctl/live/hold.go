package live

import (
	"fmt"
	"slices"
	"time"
)

// Lists move beneath the cursor: jobs end, targets come and go, another job uses most memory. A key
// is about what the person has seen under the cursor when it was pressed, so it does nothing where
// something else has come there by itself within the moment that a person needs to see it, or in
// place of what the person had chosen; it is said what is there now, and the next press counts.

// noticed is how long a person may need.
const noticed = time.Second

// hold lets the cursors follow the job and the target that were chosen.
func (m *model) hold() {
	if c := &m.at[jobsPane]; c.kept && m.running.known {
		at := slices.IndexFunc(m.jobs(), func(job Job) bool { return int64(job.Job) == c.job && job.Worker == c.in })
		if at >= 0 {
			c.row = at
		} else {
			c.kept, c.lost = false, true
		}
	}
	if c := &m.at[targetsPane]; c.under != "" {
		at := slices.IndexFunc(m.targets(), func(t target) bool { return t.name == c.under })
		if at >= 0 {
			c.row = at
		} else {
			c.lost = true
		}
	}
}

// shift notes what is under the cursors, and when that is something else than before.
func (m *model) shift() {
	for _, p := range []pane{targetsPane, jobsPane} {
		c, under := &m.at[p], m.under(p)
		if c.under != "" && under != c.under {
			c.shifted = m.now
		}
		c.under = under
	}
}

// under is what a cursor is at; "" where there is nothing.
func (m *model) under(p pane) string {
	if p == targetsPane {
		if all := m.targets(); m.at[p].row < len(all) {
			return all[m.at[p].row].name
		}
		return ""
	}
	if job, ok := m.chosenJob(); ok {
		return fmt.Sprintf("job %s of %s", id(job.Job), job.Target)
	}
	return ""
}

// steady tells whether the person can have seen what is under the cursor. Where not, it is said.
func (m *model) steady() bool {
	c := &m.at[m.chosen]
	if !c.lost && m.now.Sub(c.shifted) >= noticed {
		return true
	}
	c.lost, c.shifted = false, time.Time{}
	m.say(true, "the list has moved, and nothing was done: "+c.under+" is chosen now")
	return false
}

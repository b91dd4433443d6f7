package board

import (
	"errors"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"jobd/journal"
)

// beginClaim claims what there is room for, up to the COMMIT.
func (w *world) beginClaim(runner *rapid.Generator[bool]) bool {
	if w.claim != nil || w.stopped {
		return false
	}
	c, name, token := &Claim{}, "", w.token()
	room, drafts := make(map[string]int), []journal.Draft(nil)
	for target, t := range w.b.targets {
		room[target] = t.Room(-1)
	}
	except := w.b.Skipped(func(string) bool { return true })
	for _, id := range slices.Sorted(maps.Keys(w.rows)) {
		row := w.rows[id]
		if !w.isDue(row) || room[row.Target] <= 0 || slices.Contains(except, id) || w.locked(id) {
			continue
		}
		if room[row.Target]--; drafts == nil && runner.Draw(w.T, "a runner is there") {
			name = instance
		}
		if w.b.Holds(id) {
			w.skips[id] = row.Target
		}
		drafts = append(drafts, w.b.Accept(c, row, token, name, w.now)...)
	}
	for target, t := range w.b.targets {
		t.Claimed(room[target] <= 0, w.now)
		t.pace.ahead = rapid.IntRange(0, 5).Draw(w.T, "jobs ahead")
	}
	return w.decided(&w.claim, c, drafts)
}

// giveBackLate has a moment pass, and jobs given back that were not reached.
func (w *world) giveBackLate() bool {
	w.now = w.now.Add(lateTime)
	w.after(w.b.GiveBackLate(w.now))
	return true
}

// decided journals what a claim has decided.
func (w *world) decided(open **Claim, c *Claim, drafts []journal.Draft) bool {
	if len(drafts) == 0 {
		return false
	}
	w.checkAble(drafts)
	events, err := w.append(drafts...)
	if err != nil {
		w.after(w.b.Withdraw(c))
		return false
	}
	w.b.Decided(c, events)
	*open = c
	return true
}

// locked tells whether a claim holds a row: its transaction does so until its COMMIT has come to an
// end.
func (w *world) locked(id int64) bool {
	for _, c := range []*Claim{w.claim, w.manual} {
		if c != nil && slices.ContainsFunc(c.Events, func(e journal.Event) bool { return e.Job == id }) {
			return true
		}
	}
	return false
}

// commits are how the COMMIT of a claim may end: it is won, undone, or the link was lost before it or
// behind it.
var commits = rapid.SampledFrom([]string{"won", "won", "won", "undone", "doubt, won", "doubt, lost"})

// endClaim ends the COMMIT of a claim.
func (w *world) endClaim(how *rapid.Generator[string]) bool {
	c, open := w.claim, &w.claim
	if c == nil || w.manual != nil && rapid.Bool().Draw(w.T, "the manual one") {
		c, open = w.manual, &w.manual
	}
	if c == nil {
		return false
	}
	*open = nil
	end := how.Draw(w.T, "commit")
	if end == "won" || end == "doubt, won" {
		w.commit(c)
	}
	why := func(int64) string { return "another claim was faster" }
	switch end {
	case "won":
		w.after(w.b.Won(c))
	case "undone":
		if _, err := w.append(c.Undo(why)...); err == nil {
			w.after(w.b.Withdraw(c))
			for _, e := range c.Events {
				if client := w.clients[e.Job]; client != nil {
					client.told = true // by the claim
				}
			}
		} else {
			w.after(w.b.Doubt(c, why))
		}
	default:
		w.after(w.b.Doubt(c, nil))
	}
	for _, e := range c.Events {
		if _, ignored := e.Payload.(journal.Ignored); ignored && w.clients[e.Job] != nil {
			w.clients[e.Job].told = true
		}
	}
	return true
}

// runManual has a client ask for a job.
func (w *world) runManual(id int64) bool {
	waits := &client{}
	if _, ok := w.b.Wait([]int64{id}, map[int64]Client{id: waits}); !ok {
		return true
	}
	w.clients[id] = waits
	row, there := w.rows[id]
	if !there || w.locked(id) {
		waits.told = true
		return true
	}
	c := &Claim{}
	drafts, refusal := w.b.AcceptManual(c, row, w.token(), instance)
	if !w.decided(&w.manual, c, drafts) || refusal != "" {
		waits.told = true
	}
	return true
}

// judge asks the table about claims in doubt, and gives up those that were not won.
func (w *world) judge() bool {
	w.now = w.now.Add(time.Minute)
	ids := w.b.DueDoubts(w.now)
	var rows []journal.Row
	for _, id := range ids {
		if row, there := w.rows[id]; there {
			rows = append(rows, row)
		}
	}
	w.after(w.b.Judge(ids, rows, nil, true, w.now))
	drafts := w.b.LostDoubts()
	for _, d := range drafts {
		_, err := w.append(d)
		if errors.Is(err, journal.ErrFull) {
			return len(ids) > 0
		}
		w.after(w.b.GivenUp([]journal.Draft{d}))
	}
	return len(ids)+len(drafts) > 0
}

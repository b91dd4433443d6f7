package board

import (
	"fmt"
	"log/slog"
)

// Phase is where a job stands on its way through the worker.
type Phase uint8

// The phases. The comment at each says what happens to the job next.
const (
	unborn     Phase = iota // before its claim
	Queued                  // its target gives it a slot
	Reserved                // its claim, which says that it is about to run, is committed
	Due                     // the next turn announces it
	Announcing              // the turn that announces it is journalled
	Announced               // its row says that it runs
	Asking                  // the runner takes the request for its start
	Asked                   // the runner tells what became of the start
	Running                 // its process ends
	Ended                   // the next turn takes its outcome
	Ending                  // the turn that has its outcome is journalled
	Renewing                // it is announced once more, after a moment
	Leaving                 // its release is journalled
	Gone                    // nothing
	phaseCount
)

// phases is the table of moves. A job moves only where its row says so, and only Board.move moves
// it. docs/architecture.md has the same table; a test compares the two.
var phases = [phaseCount]struct {
	name   string
	slot   bool // a job in this phase holds one of its target's slots
	starts bool // its start, or its release, is under way: a worker that hands over waits for it
	works  bool // a worker that ends its jobs waits for it
	next   []Phase
}{
	unborn:     {"", false, false, false, []Phase{Queued, Reserved, Asked, Running, Ended, Leaving}},
	Queued:     {"queued", false, false, false, []Phase{Due, Ended, Leaving, Gone}},
	Reserved:   {"reserved", true, true, true, []Phase{Announced, Gone}},
	Due:        {"due", true, true, true, []Phase{Announcing, Queued, Leaving, Gone}},
	Announcing: {"announcing", true, true, true, []Phase{Announced, Gone}},
	Announced:  {"announced", true, true, true, []Phase{Asking, Queued, Leaving, Gone}},
	Asking:     {"asking", true, true, true, []Phase{Asked, Renewing}},
	Asked:      {"asked", true, false, true, []Phase{Running, Ended}},
	Running:    {"running", true, false, true, []Phase{Ended}},
	Ended:      {"ended", true, false, true, []Phase{Ending, Renewing, Queued, Leaving, Gone}},
	Ending:     {"ending", false, false, true, []Phase{Gone}},
	Renewing:   {"renewing", true, true, true, []Phase{Due, Queued, Leaving, Gone}},
	Leaving:    {"leaving", false, true, true, []Phase{Gone}},
	Gone:       {"gone", false, false, false, nil},
}

// String names the phase.
func (p Phase) String() string { return phases[p].name }

// legal[p] has bit q where a job may move from p to q.
var legal = func() (moves [phaseCount]uint32) {
	for from, row := range phases {
		for _, to := range row.next {
			moves[from] |= 1 << to
		}
	}
	return moves
}()

// move brings a job to another phase. It is the only function that does, and the only one that
// counts jobs and slots. A move that is not in the table is a bug: going on would start a job twice
// or lose a slot, so the worker dies, and the next start takes up what the journal says.
func (b *Board) move(j *Job, to Phase) {
	from, t := j.phase, j.target
	if legal[from]&(1<<to) == 0 {
		panic(fmt.Sprintf("job %d can't move from %s to %s", j.id, from, to))
	}
	j.phase = to
	t.in[from]--
	t.in[to]++
	switch had, has := phases[from].slot, phases[to].slot; {
	case has && !had:
		t.active++
		b.slots++
		t.starter.tries(j)
	case had && !has:
		t.active--
		b.slots--
		b.untried(j)
	}
	if to == Gone {
		delete(b.jobs, j.id)
	}
}

// Starts tells whether a job in this phase has its start, or its release, under way.
func (p Phase) Starts() bool { return phases[p].starts }

// Works tells whether a worker that ends its jobs waits for one in this phase.
func (p Phase) Works() bool { return phases[p].works }

// follow gives the effects of the call under way.
func (b *Board) follow() Effects {
	for _, t := range b.redispatch {
		b.dispatch(t)
	}
	b.redispatch = nil
	e := b.effects
	b.effects = Effects{}
	return e
}

// note logs something about a job.
func (b *Board) note(level slog.Level, text string, j *Job, args ...any) {
	args = append([]any{"job", j.id, "target", j.target.name}, args...)
	b.effects.Notes = append(b.effects.Notes, Note{level, text, args})
}

// tell tells the client of a job, if there is one, what has become of it.
func (b *Board) tell(id int64, told Told) {
	if client, waits := b.clients[id]; waits {
		told.Client = client
		b.effects.Told = append(b.effects.Told, told)
	}
}

// refuse tells the client of a job that it is not run.
func (b *Board) refuse(id int64, why string) {
	b.tell(id, Told{Why: fmt.Sprintf("job %d was not run: %s", id, why)})
}

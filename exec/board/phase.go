package board

// Phase is where a job stands on its way through the worker.
type Phase uint8

// The phases. Behind each stands what happens next.
const (
	unborn     Phase = iota // before its claim
	Queued                  // its target gives it a slot
	Reserved                // its claim, which says that it is about to run, is committed
	Due                     // the next turn announces it
	Announcing              // the turn that announces it is journalled
	Announced               // its row says that it runs
	Parked                  // the same; the next job of its target has its slot meanwhile
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
	Queued:     {"queued", false, false, false, []Phase{Due, Leaving, Gone}},
	Reserved:   {"reserved", true, true, true, []Phase{Announced, Gone}},
	Due:        {"due", true, true, true, []Phase{Announcing, Queued, Leaving, Gone}},
	Announcing: {"announcing", true, true, true, []Phase{Announced, Gone}},
	Announced:  {"announced", true, true, true, []Phase{Asking, Parked, Queued, Leaving, Gone}},
	Parked:     {"parked", false, true, false, []Phase{Queued, Leaving, Gone}},
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

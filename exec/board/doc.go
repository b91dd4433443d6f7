// Package board is what a worker remembers of jobs, slots, claims in doubt and targets, as data:
// where each job stands, what may become of it, and what follows. It does no I/O, starts no
// goroutine, waits for nothing and reads no clock: times are passed in. So every order of events can
// be tried in a test, and is: a model checks the board against random ones.
//
// # How the worker uses it
//
//	what has happened ──► a method of Board ──► Effects ──► the worker carries them out
//
// A method changes the board and returns the Effects that follow: look at the table, take a turn,
// start these jobs, answer that client. The worker holds its mutex while it calls the method, and
// never while it appends to the journal, asks the table or the runner, or waits.
//
// What happened to jobs with a slot gathers in the board's inbox. Turn gives all of it as steps,
// which the worker journals in one append; Journalled changes the board then, and gives what follows:
//
//	Began, Ended, Signal, slots that were given ──► inbox ──► Turn ──► append ──► Journalled ──► Effects
//
// Claims are the same in small: Accept reserves slots and gives drafts; they are appended; Decided
// notes the events, and Won, Withdraw or Doubt says what became of the COMMIT.
//
// # Phases
//
// A job is in one phase at any time. The table in phase.go says which phase may follow which, and
// which of them holds a slot; Board.move (phase.go) is the only function that changes a job's phase,
// and so the only one that counts slots. docs/architecture.md has the table.
//
// A start is known by the job and the number of the event that announces it. Code that acts for a
// start later, because the row was locked for one, gives both numbers, and nothing comes of a start
// that was overtaken meanwhile.
//
// A job that is cancelled (cancel.go) leaves from the phases in which nobody was asked for its start
// yet, and is marked where it runs; in all others the wish waits for its next move. So the job either
// leaves before its start or is ended while it runs, never both.
//
// A job that is a request begins when its connection is there, and is held: Effects.Held says that the
// step with its connection is journalled, and that it may be sent (cancel.go). What can start no job for
// now has nothing claimed for it (unable.go). How many jobs wait in a queue follows how fast its target's
// jobs go; those that it does not reach after all leave (pace.go).
//
// # What comes back
//
// A row that says something about time is weighed when it is claimed (plan.go): it is run, or planned
// anew, or says what can't be and is ignored with the reason. What follows the end of a run is decided
// by runEnd.again (plan.go), a function of the claim, the attempt, the outcome, the terms of the target
// and the time; it becomes part of the done event. A job whose row comes back leaves the board as any
// other: its next attempt, or run, is another claim.
//
// Within one claim a job is started again only where nobody knows how it ended, and the configuration
// says so. The number of a start counts on from what earlier claims of the same run have started; so
// whether a claim has started its job is told by the first number of that claim, and not by 1.
//
// # What the board promises
//
//   - No more jobs hold slots of a target than its concurrency was when the last one got its slot. Jobs
//     that a former worker has started hold slots as well, and may be more; also where their target was
//     not served when they were taken up, and is added meanwhile.
//   - A job is started under an announcement that is journalled, and once for each.
//   - Each job comes to its end in the journal, or stays for the next start: a job that the worker
//     gives back waits on the board until its release is journalled.
//   - Slots of a claim are reserved before it is journalled, and given back where it is not won. They
//     are the one thing that runs ahead of the journal.
package board

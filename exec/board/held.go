package board

import (
	"cmp"
	"slices"

	"jobd/journal"
)

// known notes that the journal knows a job's process, or could not be told of it. A request, whose
// process is where it is to be sent, may be sent once it is journalled, and not before. Where that
// contradicts the journal it never is: nothing is left to be known of it. Nor is one of which somebody
// has said by now that it is to end, be it in a later turn: it gets its signal instead.
func (b *Board) known(s *Step) {
	j := s.job
	started, _ := s.Drafts[0].Payload.(journal.Started)
	if s.Err != nil {
		j.tells(started)
	} else {
		j.said = true
	}
	switch {
	case started.Address == "" || j.phase != Running:
	case s.Err == nil && j.halted > 0:
		j.held = true
	default:
		b.effects.Held = append(b.effects.Held, Held{Process: j.process, Go: s.Err == nil})
	}
}

// unhalt has a request sent that was to get a signal which could not be journalled, and no other.
func (b *Board) unhalt(s *Step) {
	j := s.job
	if s.Err == nil {
		return
	}
	if j.halted--; j.halted == 0 && j.held && j.phase == Running {
		j.held = false
		b.effects.Held = append(b.effects.Held, Held{Process: j.process, Go: true})
	}
}

// EndsRequest tells whether a signal is one that ends a request.
func EndsRequest(signo int) bool {
	const sigint, sigkill = 2, 9
	return slices.Contains([]int{sigint, sigkill, sigterm}, signo)
}

func (s Signal) ends() bool { return EndsRequest(s.Event.Signo) }

// Unanswered gives, for each job of some targets (nil: all) whose start was asked for, what is to
// tell of it, as long as it has told nothing: those starts are to be taken back.
func (b *Board) Unanswered(targets []string) (processes []Process) {
	for _, j := range b.jobs {
		if j.phase == Asked && j.process != nil && (targets == nil || slices.Contains(targets, j.target.name)) {
			processes = append(processes, b.Unwanted(j))
		}
	}
	return processes
}

// Unwanted notes that the start of a job is to be taken back, if it waits still, and gives its process;
// nil where it has none.
func (b *Board) Unwanted(j *Job) Process {
	j.unwanted = j.unwanted || j.phase == Asked
	return j.process
}

// GiveUp notes that a request gets a signal that ends it while it waits for its connection, and so that
// its run is not tried again, if ends says so. by is who sends it: the end of the job says so, since no
// signal is journalled of a start that the journal knows no process of. It is false where that is over.
func (b *Board) GiveUp(j *Job, by string, ends bool) bool {
	if j.phase != Asked {
		return false
	}
	j.ends, j.givenUp = j.ends || ends, cmp.Or(j.givenUp, by)
	j.halted++
	return true
}

// givenUpBy has the end of a request that was never sent say who ended it.
func givenUpBy(done *journal.Done, by string) {
	if by != "" {
		done.Reason += ", by " + by
	}
}

// MovesOf gives, for each job under way that one of some executors runs, a channel that is closed
// when it moves on.
func (b *Board) MovesOf(executor func(name string) bool) (moves []<-chan struct{}) {
	for _, j := range b.jobs {
		if phases[j.phase].works && !phases[j.phase].starts && executor(j.executor) {
			moves = append(moves, j.Moved())
		}
	}
	return moves
}

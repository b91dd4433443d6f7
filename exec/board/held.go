package board

import (
	"slices"

	"jobd/journal"
)

// known notes that the journal knows a job's process, or could not be told of it. A request, whose
// process is where it is to be sent, may be sent once it is journalled, and not before. Where that
// contradicts the journal it never is: nothing is left to be known of it. One that is cancelled, or
// to get a signal that ends it, with the same step gets that instead.
func (b *Board) known(s *Step) {
	j := s.job
	started, _ := s.Drafts[0].Payload.(journal.Started)
	if s.Err != nil {
		j.tells(started)
	} else {
		j.said = true
	}
	if started.Address == "" || j.phase != Running || s.Err == nil && s.ends() {
		return
	}
	b.effects.Held = append(b.effects.Held, Held{Process: j.process, Go: s.Err == nil})
}

// ends tells whether a step says that a request is to be given up.
func (s *Step) ends() bool {
	const sigint, sigkill = 2, 9
	return s.what == cancel || s.what == signal && slices.Contains([]int{sigint, sigkill, sigterm}, s.signal.Event.Signo)
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

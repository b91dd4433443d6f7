package board

import "jobd/journal"

// known notes that the journal knows a job's process, or could not be told of it. A request, whose
// process is where it is to be sent, may be sent once it is journalled, and not before. Where that
// contradicts the journal it never is: nothing is left to be known of it. One that was cancelled with
// the same step gets its signal instead.
func (b *Board) known(s *Step) {
	j := s.job
	started, _ := s.Drafts[0].Payload.(journal.Started)
	if s.Err != nil {
		j.unsaid = started
	} else {
		j.said = true
	}
	if started.Address == "" || j.phase != Running || s.Err == nil && s.what == cancel {
		return
	}
	b.effects.Held = append(b.effects.Held, Held{Process: j.process, Go: s.Err == nil})
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

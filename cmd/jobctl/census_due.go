package main

// delays tells whether any target has a delayed row, as far as is known.
func (s *census) delays() bool {
	for _, w := range s.waiting {
		if w.NextDue > 0 {
			return true
		}
	}
	for _, w := range s.workers {
		if w.err != nil || w.answer == nil {
			continue
		}
		for _, t := range w.answer.Targets {
			if t.NextDue > 0 {
				return true
			}
		}
	}
	return false
}

// nextDue is when the next delayed row of a target is due, in unix seconds: as the table has it, or
// else as the workers' claims have learned; 0: none is known.
func (s *census) nextDue(target string) (next int64) {
	if w, counted := s.waiting[target]; counted && w.Error == "" {
		return w.NextDue
	}
	for _, w := range s.workers {
		if w.err != nil || w.answer == nil {
			continue
		}
		if at := w.answer.Targets[target].NextDue; at > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

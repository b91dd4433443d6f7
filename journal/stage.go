package journal

// Stage is what events do to a state that must not change before they are durable.
type Stage struct {
	base *State
	jobs map[int64]*Job // jobs as the staged events leave them
	undo []*Job         // what was changed in jobs since the mark
}

// Stage begins a stage on top of the state, for about as many events as size says. The state must
// not change until it is taken or dropped.
func (s *State) Stage(size int) *Stage {
	return &Stage{base: s, jobs: make(map[int64]*Job, size)}
}

// Mark notes where Undo goes back to.
func (s *Stage) Mark() { s.undo = s.undo[:0] }

// Undo takes back the events since the mark.
func (s *Stage) Undo() {
	for k := len(s.undo) - 1; k >= 0; k-- {
		s.jobs[s.undo[k].ID] = s.undo[k]
	}
	s.undo = s.undo[:0]
}

// Add refuses an event that contradicts the state or what is staged before it.
func (s *Stage) Add(e Event) error {
	if e.Job == 0 {
		return (&State{}).applyWorker(e)
	}
	job, ok := s.jobs[e.Job]
	if !ok {
		job, ok = s.base.Jobs[e.Job]
	}
	if !ok {
		job = &Job{ID: e.Job}
	}
	next, err := job.next(e)
	if err != nil {
		return err
	}
	s.undo = append(s.undo, job)
	s.jobs[e.Job] = &next
	return nil
}

// Take moves the state on by what was staged on top of it: these events.
func (s *State) Take(staged *Stage, events []Event) error {
	for _, e := range events {
		if e.Job == 0 {
			if err := s.applyWorker(e); err != nil {
				return err
			}
		}
	}
	for _, job := range staged.jobs {
		s.put(job)
	}
	if n := len(events); n > 0 {
		last := &events[n-1]
		s.Seq, s.Time, s.Hash = last.Seq, last.Time, last.Hash
	}
	return nil
}

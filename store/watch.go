package store

// watcher waits for one event to be in the table.
type watcher struct {
	seq   uint64
	shown chan struct{}
}

// Applied is the newest event up to which the table shows everything that it would take.
func (m *Mirror) Applied() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.applied
}

// Shown gives a channel that is closed when the mirror is done with event seq:
// the table shows it, or the journal holds a conflict instead.
func (m *Mirror) Shown(seq uint64, job int64) <-chan struct{} {
	shown := make(chan struct{})
	m.mu.Lock()
	defer m.mu.Unlock()
	if seq <= m.applied {
		close(shown)
	} else {
		m.watchers = append(m.watchers, watcher{seq, shown})
	}
	return shown
}

// Tried gives a channel that is closed when the mirror has tried to show event seq and all before it.
func (m *Mirror) Tried(seq uint64) <-chan struct{} { return m.Shown(seq, 0) }

// advance notes that the mirror is done with everything up to seq.
func (m *Mirror) advance(seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied = seq
	left := m.watchers[:0]
	for _, w := range m.watchers {
		if w.seq <= seq {
			close(w.shown)
		} else {
			left = append(left, w)
		}
	}
	clear(m.watchers[len(left):])
	m.watchers = left
}

// Away gives a channel that is closed as long as the table cannot be reached.
func (m *Mirror) Away() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.away
}

// setAway notes whether the table can be reached.
func (m *Mirror) setAway(away bool) {
	m.mu.Lock()
	changed := m.isAway != away
	m.isAway = away
	if changed && away {
		close(m.away)
	} else if changed {
		m.away = make(chan struct{})
	}
	m.mu.Unlock()
	if changed && !away && m.OnReturn != nil {
		m.OnReturn()
	}
}

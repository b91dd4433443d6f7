package store

import "sync"

// serverCheck tells that the server is to be asked for which one it is. Its methods are safe for
// concurrent use.
type serverCheck struct {
	mu        sync.Mutex
	due       bool
	interrupt func() // ends the waiting for events; nil while there is none
}

// CheckServer has the mirror ask which server the table is on, before it does anything else. It is
// called when a connection reached another one than was confirmed. It does not block.
func (s *serverCheck) CheckServer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = true
	if s.interrupt != nil {
		s.interrupt()
	}
}

// isDue tells whether the server is to be asked.
func (s *serverCheck) isDue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due
}

// interruptible says how to end the waiting for events; nil: it has ended. It tells whether to wait
// at all.
func (s *serverCheck) interruptible(cancel func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel != nil && s.due {
		return false
	}
	s.interrupt = cancel
	return true
}

// begun notes that the server is asked now: a CheckServer from here on needs another look.
func (s *serverCheck) begun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = false
}

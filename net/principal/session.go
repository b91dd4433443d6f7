package principal

import (
	"context"
	"fmt"
	"strings"
)

// Session is who asks, and what it may do.
type Session struct {
	Name    string // of the principal; "": nobody has a name here
	How     string // it is known: token, certificate, uid, proxy, password, localhost
	Address string // where it comes from
	Master  string // that passed its request on, as "master 10.0.0.9:7081"; "": none did

	Scope   Scope
	Targets Targets

	line *Line // of the file; nil: none
}

// Known is the session of a peer without a line in the file: it may do everything.
func Known(name, how, address string) *Session {
	return &Session{Name: name, How: how, Address: address, Scope: everything, Targets: allTargets}
}

const everything = Status | Read | Submit | Run | Admin | Worker

var allTargets, _ = ParseTargets("*")

// Of is the session of a peer that a line of the file lets in.
func (l *Line) Of(address string) *Session {
	return &Session{Name: l.Name, How: l.how, Address: address, Scope: l.Scope, Targets: l.Targets, line: l}
}

// Line is the session's credential; nil: it has none of its own.
func (s *Session) Line() *Line { return s.line }

// OnEnd calls a function when the session's credential is gone. The function that it gives ends that.
func (s *Session) OnEnd(do func()) (stop func() bool) {
	if s.line == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(s.line.ctx, do)
}

// Who names somebody in a sentence.
func (s *Session) Who() string {
	switch {
	case s.Name != "":
		return s.Name
	case s.Master != "":
		return s.Master
	}
	return s.Address
}

// All tells whether somebody has all targets.
func (s *Session) All() bool { return s.Targets.all() }

// Has tells which targets somebody has; nil: all.
func (s *Session) Has() func(target string) bool {
	if s == nil || s.All() {
		return nil
	}
	return s.Targets.Reach
}

// Rights name whose rights a session has, and which: what one has opened with them, others may not go on with.
func (s *Session) Rights() string { return s.Name + " " + s.Scope.String() + " " + s.Targets.String() }

// Everything tells whether somebody has each right.
func (s *Session) Everything() bool { return s.Scope == everything }

// By is how the journal and the log name somebody: "ann (token, 10.0.0.5:41234) via master 10.0.0.9:7081".
func (s *Session) By() string {
	by := s.Address
	if s.Name != "" {
		by = fmt.Sprintf("%s (%s)", s.Name, strings.Trim(s.How+", "+s.Address, ", "))
	}
	switch {
	case s.Master == "":
		return by
	case by == "":
		return s.Master
	}
	return by + " via " + s.Master
}

package storetest

import (
	"errors"

	"jobd/journal"
	"jobd/store"
)

func serverTests() []test {
	return []test{
		{"claims are made on the confirmed server only", claimsNeedConfirmation},
	}
}

func claimsNeedConfirmation(s *suite) {
	server, err := s.Table.Server(s.Context())
	if err != nil || server == "" {
		s.Fatalf("Server: %q, %v", server, err)
	}
	if other, err := s.Other.Server(s.Context()); err != nil || other != server {
		s.Errorf("another worker's server is %q, %v; want %q", other, err, server)
	}
	id := s.insert("a", journal.RowWaiting, "")
	ours := s.insert("a", journal.RowRunning, token)
	s.Table.Confirm("elsewhere")
	decision := &acceptAll{token: token}
	_, manualErr := s.Table.ClaimManual(s.Context(), []int64{id}, nil, decision.decide)
	for _, err := range []error{s.Table.Claim(s.Context(), map[string]int{"a": 1}, nil, decision.decide), manualErr} {
		var another *store.AnotherServer
		if !errors.As(err, &another) || another.Reached != server || another.Confirmed != "elsewhere" || store.IsAway(err) {
			s.Errorf("a claim: %v; want it to be refused at %s", err, server)
		}
	}
	if decision.calls > 0 {
		s.Errorf("decide was called %d times", decision.calls)
	}
	s.expect(id, journal.RowWaiting, "")

	s.apply([]store.Change{done(ours, ended("ok", code(0), "", "", ""))}, []store.Outcome{{}})
	_, lookErr := s.Table.Look(s.Context(), []int64{id})
	_, _, rowsErr := s.Table.Rows(s.Context(), []int64{id})
	_, wayErr := s.Table.UnderWay(s.Context(), token, nil)
	if err := errors.Join(lookErr, rowsErr, wayErr); err != nil {
		s.Errorf("what is no claim: %v", err)
	}
	s.Table.Confirm(server)
	if err := s.Table.Claim(s.Context(), map[string]int{"a": 1}, nil, decision.decide); err != nil {
		s.Errorf("a claim on the confirmed server: %v", err)
	}
	s.expect(id, journal.RowAccepted, token)
}

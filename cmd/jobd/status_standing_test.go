package main

import (
	"errors"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/net/api"
)

// The database is away since the first of mirror and claims could not reach it, and reachable since
// the last of them could again; what else keeps claims from being made says nothing of it.
func TestSinceWhenTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time { return time.Date(2026, 11, 20, 10, minutes, 0, 0, time.UTC) }
	away := func(minutes int, why string) *jobexec.Outage {
		return &jobexec.Outage{Why: why, Since: at(minutes), Away: true}
	}
	gone := errors.New("connection refused")
	for name, test := range map[string]struct {
		since  time.Time
		why    error
		worker jobexec.Status
		want   api.Standing
	}{
		"from the start on":            {want: api.Standing{Reachable: true, Since: at(0)}},
		"the mirror can't":             {at(5), gone, jobexec.Status{}, api.Standing{Since: at(5), Error: gone.Error()}},
		"claims can't":                 {at(3), nil, jobexec.Status{Outage: away(5, "access denied")}, api.Standing{Since: at(5), Error: "access denied"}},
		"both, the mirror first":       {at(5), gone, jobexec.Status{Outage: away(6, "x")}, api.Standing{Since: at(5), Error: gone.Error()}},
		"both, claims first":           {at(5), gone, jobexec.Status{Outage: away(4, "x")}, api.Standing{Since: at(4), Error: gone.Error()}},
		"back, the mirror last":        {at(9), nil, jobexec.Status{Returned: at(8)}, api.Standing{Reachable: true, Since: at(9)}},
		"back, claims last":            {at(7), nil, jobexec.Status{Returned: at(8)}, api.Standing{Reachable: true, Since: at(8)}},
		"a full disk is no such thing": {at(7), nil, jobexec.Status{Outage: &jobexec.Outage{Why: "full", Since: at(8)}}, api.Standing{Reachable: true, Since: at(7)}},
	} {
		if got := standingOf(at(0), test.since, test.why, test.worker); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

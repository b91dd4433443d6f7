package storetest

import (
	"strconv"
	"time"

	"jobd/journal"
)

// decidedTests are of what claims and retries make of rows.
func decidedTests() []test {
	return []test{
		{"a claim notes the planned start, and the attempt of a start", claimNotes},
		{"a row that is planned anew stays delayed", claimPlans},
		{"a row that is ignored tells why, and frees its key", claimIgnores},
		{"by id, whatever its time is", claimByID},
		{"only as it was found", claimGuards},
		{"a retry begins a new run", retryOfTime},
	}
}

func text(n int64) string { return strconv.FormatInt(n, 10) }

// decides claims with the same events for all rows, in their order.
func (s *suite) decides(target string, payloads ...journal.Payload) {
	s.Helper()
	err := s.Table.Claim(s.Context(), map[string]int{target: 9}, nil, func(rows []journal.Row) (events []journal.Event, _ error) {
		for _, row := range rows {
			for _, payload := range payloads {
				events = append(events, journal.Event{Job: row.Job, Time: time.Unix(started, 0), Payload: payload})
			}
		}
		return events, nil
	})
	if err != nil {
		s.Fatal(err)
	}
}

const ofTime = "status sig run_at planned_at attempts"

func claimNotes(s *suite) {
	put := func(target, status string) int64 {
		return s.put(timed{target: target, status: status, columns: map[string]any{"run_at": 11, "planned_at": 12, "attempts": 1}})
	}
	waiting := s.waitingSince("a", 1)
	s.decides("a", journal.Accepted{Token: token, PlannedAt: 99})
	s.says(waiting, ofTime, "accepted "+token+" 0 99 0")
	kept := put("b", journal.RowDelayed)
	s.decides("b", journal.Accepted{Token: token, From: journal.RowDelayed, PlannedAt: 12}, journal.Running{Attempt: 2})
	s.says(kept, ofTime, "running "+token+" 11 12 2")
	s.says(kept, "time_started", text(started))
	manual := put("c", journal.RowWaiting)
	s.decides("c", journal.Accepted{Token: token})
	s.says(manual, ofTime, "accepted "+token+" 11 12 1")
}

func claimPlans(s *suite) {
	id := s.put(timed{target: "a", status: journal.RowDelayed, columns: map[string]any{"schedule": "daily 02:30", "attempts": 2, "unique_key": "k"}})
	at := soon()
	s.decides("a", journal.Planned{Target: "a", To: journal.Again{RunAt: at, PlannedAt: at + 1}})
	s.says(id, ofTime+" schedule unique_key", "delayed - "+text(at)+" "+text(at+1)+" 0 daily 02:30 k")
	s.takes(map[string]int{"a": 9}, nil)
	s.waiting(nil)
}

func claimIgnores(s *suite) {
	put := func(target string) int64 {
		return s.put(timed{target: target, status: journal.RowDelayed, columns: map[string]any{"run_at": 1, "unique_key": "key of " + target}})
	}
	told, quiet := put("a"), put("b")
	s.decides("a", journal.Ignored{Reason: "run_at is in milliseconds", Told: true})
	s.decides("b", journal.Ignored{Reason: "x"})
	s.says(told, "status stderr unique_key", "ignored [jobd: run_at is in milliseconds]\n -")
	s.says(quiet, "status stderr unique_key", "ignored - -")
	put("a") // the key is free
}

func claimByID(s *suite) {
	id := s.delayed("a", soon())
	locked, err := s.Table.ClaimManual(s.Context(), []int64{id}, []string{"a"}, (&acceptAll{token: token}).decide)
	if err != nil || len(locked) > 0 {
		s.Fatalf("%v, %v", locked, err)
	}
	s.expect(id, journal.RowAccepted, token)
	if _, err := s.Other.ClaimManual(s.Context(), []int64{s.delayed("a", 1)}, nil, (&acceptAll{token: token}).decide); err == nil {
		s.Error("a worker that uses no columns has claimed a delayed row")
	}
}

// A row that was changed behind the decision's back is not updated by a claim of its former kind.
func claimGuards(s *suite) {
	if s.RowLocks {
		s.Skip("a row that a claim has chosen is locked")
	}
	id := s.delayed("a", past())
	err := s.Table.Claim(s.Context(), map[string]int{"a": 1}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		rows[0].Status = journal.RowWaiting // as if that had been read
		return []journal.Event{{Job: id, Payload: journal.Accepted{Token: token}}}, nil
	})
	if err != nil {
		s.Fatal(err)
	}
	s.expect(id, journal.RowDelayed, "")
}

func retryOfTime(s *suite) {
	for to, want := range map[string]string{journal.RowWaiting: "waiting - 0 0 0", journal.RowManual: "manual - 11 0 0"} {
		id := s.put(timed{target: "a", status: journal.RowDone, columns: map[string]any{"run_at": 11, "planned_at": 12, "attempts": 3, "schedule": "every 1d"}})
		if _, err := s.Table.ClaimManual(s.Context(), []int64{id}, nil, setBack(to, time.Unix(finished, 0))); err != nil {
			s.Fatal(err)
		}
		s.says(id, ofTime, want)
		s.says(id, "schedule", "every 1d")
	}
}

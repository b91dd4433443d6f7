package storetest

import (
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// RunTimes runs the suite of what tables do that use the optional columns. fresh makes a fixture of
// which Table uses all of them, and Other none.
func RunTimes(t *testing.T, fresh func(t *testing.T) Fixture) {
	for name, tests := range map[string][]test{
		"Due": dueTests(), "Decided": decidedTests(), "Ends": endTests(), "Told": toldTests(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, one := range tests {
				t.Run(one.name, func(t *testing.T) {
					t.Parallel()
					one.run(&suite{T: t, Fixture: fresh(t)})
				})
			}
		})
	}
}

// timed is a row about time as the application inserts it. A column that it does not set has its
// default.
type timed struct {
	target, status, owner string
	created               int64
	columns               map[string]any
}

// put inserts a row.
func (s *suite) put(r timed) int64 {
	s.Helper()
	names, marks, args := "target, time_created, status", "?, ?, ?", []any{r.target, max(r.created, 1), r.status}
	if r.owner != "" {
		names, marks, args = names+", sig", marks+", ?", append(args, r.owner)
	}
	for name, value := range r.columns {
		names, marks, args = names+", "+name, marks+", ?", append(args, value)
	}
	result := must.Get(s.DB.Exec("INSERT INTO jobs ("+names+") VALUES ("+marks+")", args...))(s)
	id := must.Get(result.LastInsertId())(s)
	return id
}

// delayed inserts a row that is due at a time.
func (s *suite) delayed(target string, runAt int64) int64 {
	s.Helper()
	return s.put(timed{target: target, status: journal.RowDelayed, columns: map[string]any{"run_at": runAt}})
}

// says compares columns of a row, joined by blanks; NULL is "-".
func (s *suite) says(id int64, columns, want string) {
	s.Helper()
	names := strings.Fields(columns)
	values, places := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range values {
		places[i] = &values[i]
	}
	if err := s.DB.QueryRow("SELECT "+strings.Join(names, ", ")+" FROM jobs WHERE id = ?", id).Scan(places...); err != nil {
		s.Fatalf("read job %d: %v", id, err)
	}
	got := make([]string, len(names))
	for i, value := range values {
		if got[i] = value.String; !value.Valid {
			got[i] = "-"
		}
	}
	check.Diff(s, want, strings.Join(got, " "), "job %d, %s", id, columns)
}

// plans is what rows say about time, by job.
func plans(rows []journal.Row) map[int64]journal.Plan {
	all := map[int64]journal.Plan{}
	for _, row := range rows {
		if row.Plan != nil {
			all[row.Job] = *row.Plan
		}
	}
	return all
}

// soon and past are times, in unix seconds, at which no row is due yet, and at which each is.
func soon() int64 { return time.Now().Unix() + 3600 }
func past() int64 { return time.Now().Unix() - 3600 }

// toldTests are of what rows say to those who look.
func toldTests() []test {
	return []test{
		{"everybody who reads a row is told of its plan", plansAreTold},
		{"nobody is where nothing is used", plansAreUnused},
		{"columns that say nothing, or nonsense", plansOfNonsense},
		{"rows that may have run before", unclaimedDelayed},
	}
}

func plansAreTold(s *suite) {
	want := journal.Plan{RunAt: 11, PlannedAt: 12, Attempts: 3, MaxAttempts: 4, Timeout: 5, Schedule: "daily 02:30", Zone: "Europe/Berlin"}
	id := s.put(timed{target: "a", status: journal.RowDelayed, owner: "SIGTERM", columns: map[string]any{
		"run_at": 11, "planned_at": 12, "attempts": 3, "max_attempts": 4, "timeout": 5, "schedule": "daily 02:30", "time_zone": "Europe/Berlin", "priority": 7,
	}})
	s.exec("UPDATE jobs SET time_finished = 9, result = 'fail'")
	ids := []int64{id}
	told := map[string]*journal.Plan{}
	rows, _, err := s.Table.Rows(s.Context(), ids)
	if err != nil || len(rows) != 1 || rows[0].Finished != 9 {
		s.Fatalf("%+v, %v", rows, err)
	}
	told["Rows"] = rows[0].Plan
	seen, err := s.Table.Look(s.Context(), ids)
	if err != nil || seen[id].Signal != "SIGTERM" || seen[id].Result != "fail" {
		s.Fatalf("%+v, %v", seen[id], err)
	}
	told["Look"] = seen[id].Plan
	details := must.Get(s.Table.Details(s.Context(), ids, []string{"a"}, 10))(s)
	told["Details"] = details[id].Plan
	hear := func(what string) store.Decide {
		return func(rows []journal.Row) ([]journal.Event, error) {
			told[what] = rows[0].Plan
			return nil, nil
		}
	}
	_, first := s.Table.ClaimManual(s.Context(), ids, nil, hear("ClaimManual"))
	if second := s.Table.Claim(s.Context(), map[string]int{"a": 1}, nil, hear("Claim")); first != nil || second != nil {
		s.Fatal(first, second)
	}
	for what, got := range told {
		check.Diff(s, &want, got, "%s", what)
	}
	if len(told) != 5 {
		s.Errorf("%d told, want 5", len(told))
	}
}

// A worker whose configuration names no columns takes no notice of them, whatever they say.
func plansAreUnused(s *suite) {
	late := s.put(timed{target: "a", status: journal.RowDelayed, columns: map[string]any{"run_at": 1, "priority": 9}})
	id := s.put(timed{target: "a", status: journal.RowWaiting, columns: map[string]any{"attempts": 3, "schedule": "every 1s", "unique_key": "k"}})
	decision := &acceptAll{token: token}
	if err := s.Other.Claim(s.Context(), map[string]int{"a": 5}, nil, decision.decide); err != nil || len(decision.rows) != 1 || decision.rows[0].Plan != nil {
		s.Fatalf("claimed %+v, %v; want the waiting row alone, without a plan", decision.rows, err)
	}
	if left, err := s.Other.Waiting(s.Context(), []string{"a"}, nil); err != nil || len(left) > 0 {
		s.Errorf("waiting: %v, %v", left, err)
	}
	if due, err := s.Other.NextDue(s.Context(), []string{"a"}, nil); err != nil || len(due.Next) > 0 || !due.Now.IsZero() {
		s.Errorf("due: %v, %v", due, err)
	}
	plan := &journal.Plan{Schedule: "another"}
	outcomes, err := s.Other.Apply(s.Context(), []store.Change{{
		Job: id, Token: token, Status: journal.RowDone, Finish: time.Unix(finished, 0), Attempts: 9, Plan: plan, Done: ended("ok", code(0), "", "", ""),
	}})
	if err != nil || outcomes[0].Fate != store.Applied {
		s.Fatalf("%+v, %v", outcomes, err)
	}
	s.says(id, "status attempts schedule unique_key", "done 3 every 1s k")
	s.says(late, "status run_at", "delayed 1")
}

// NULL reads as nothing, and a row that says nonsense goes to the claim that can say so.
func plansOfNonsense(s *suite) {
	plain := s.put(timed{target: "a", status: journal.RowWaiting})
	null := s.put(timed{target: "a", status: journal.RowWaiting, columns: map[string]any{"schedule": nil, "max_attempts": nil, "timeout": nil}})
	long := s.put(timed{target: "a", status: journal.RowWaiting, columns: map[string]any{"schedule": "every 1 day, and so on"}})
	far := s.delayed("a", 4_200_000_000)
	decision := &acceptAll{token: token}
	must.Do(s, s.Table.Claim(s.Context(), map[string]int{"a": 9}, nil, decision.decide))
	want := map[int64]journal.Plan{plain: {}, null: {}, long: {Schedule: "every 1 day, and so on"}, far: {RunAt: 4_200_000_000}}
	check.Diff(s, want, plans(decision.rows), "rows")
}

func unclaimedDelayed(s *suite) {
	now := time.Now().Unix()
	due := s.delayed("a", past())
	s.delayed("a", soon())
	ended := s.delayed("a", past())
	s.exec(fmt.Sprintf("UPDATE jobs SET time_finished = %d WHERE id = %d", now-10, ended))
	longAgo := s.delayed("a", past())
	s.exec(fmt.Sprintf("UPDATE jobs SET time_finished = %d WHERE id = %d", now-9999, longAgo))
	waiting := s.insert("a", journal.RowWaiting, "")
	got, err := s.Table.Unclaimed(s.Context(), []string{"a"}, now-100, 0, 100)
	if diff := cmp.Diff([]int64{due, longAgo, waiting}, got); err != nil || diff != "" {
		s.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := s.Other.Unclaimed(s.Context(), []string{"a"}, now-100, 0, 100); err != nil || len(got) != 1 {
		s.Errorf("where nothing is used: %v, %v", got, err)
	}
}

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
	must.Do(s, err)
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
	must.Do(s, err)
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

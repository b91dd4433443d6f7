package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
)

// endTests are of what the mirror makes of rows.
func endTests() []test {
	return []test{
		{"a start counts", endOfStart},
		{"a row that comes back, twice", endComesBack},
		{"a row that is done frees its key, in reduced forms too", endFreesKey},
		{"given back as it was", endGivesBack},
		{"guarded by the schedule", endGuarded},
		{"several with several schedules", endsTogether},
		{"a row that went on elsewhere", endPassed},
	}
}

// runs inserts a row that bears the token, with the columns of a plan and a key.
func (s *suite) runs(columns map[string]any) int64 {
	s.Helper()
	return s.put(timed{target: "a", status: journal.RowRunning, owner: token, columns: columns})
}

// again is an end after which a row comes back.
func again(job int64, plan *journal.Plan, runAt int64) store.Change {
	change := done(job, ended("fail", code(3), "", "out", "err"))
	change.Status, change.Plan, change.Attempts = journal.RowDelayed, plan, 9
	change.Done.Again = &journal.Again{RunAt: runAt, PlannedAt: runAt + 1, Attempts: 2, Why: journal.AgainRetry}
	return change
}

func endOfStart(s *suite) {
	id := s.runs(map[string]any{"attempts": 1})
	change := store.Change{Job: id, Token: token, Status: journal.RowRunning, Start: time.Unix(started, 0), Attempts: 2}
	s.apply([]store.Change{change, done(s.runs(nil), ended("ok", code(0), "", "", ""))}, []store.Outcome{{}, {}})
	s.says(id, "status attempts", "running 2")
	last := done(id, ended("ok", code(0), "", "", ""))
	last.Attempts = 3
	s.apply([]store.Change{last}, []store.Outcome{{}})
	s.says(id, "status attempts", "done 3")
}

func endComesBack(s *suite) {
	id := s.runs(map[string]any{"run_at": 1, "planned_at": 1, "attempts": 2, "unique_key": "k"})
	for range 2 {
		s.apply([]store.Change{again(id, &journal.Plan{}, 500)}, []store.Outcome{{}})
		s.says(id, ofTime+" result return_code stdout stderr unique_key", "delayed - 500 501 2 fail 3 out err k")
		s.says(id, "time_started time_finished", text(started)+" "+text(finished))
	}
}

// Values that a column can't hold are left out, and the row ends, or comes back, all the same.
func endFreesKey(s *suite) {
	back, over := s.runs(map[string]any{"unique_key": "back"}), s.runs(map[string]any{"unique_key": "over"})
	huge := 70_000
	late := again(back, &journal.Plan{}, 500)
	late.Done.Code = &huge
	outcomes, err := s.Table.Apply(s.Context(), []store.Change{late, done(over, ended("fail", &huge, "", "", ""))})
	if err != nil || outcomes[0].Fate != store.Applied || outcomes[1].Fate != store.Applied {
		s.Fatalf("%+v, %v", outcomes, err)
	}
	s.says(back, ofTime+" unique_key", "delayed - 500 501 2 back")
	s.says(over, "status unique_key", "done -")
	cancelled := s.runs(map[string]any{"unique_key": "cancelled"})
	s.apply([]store.Change{{Job: cancelled, Token: token, Status: journal.RowIgnored, Done: &journal.Done{Note: "x"}}}, []store.Outcome{{}})
	s.says(cancelled, "status unique_key", "ignored -")
}

func endGivesBack(s *suite) {
	plan := &journal.Plan{RunAt: 11, PlannedAt: 12, Attempts: 1, Schedule: "every 1d"}
	for _, status := range []string{journal.RowDelayed, journal.RowWaiting, journal.RowManual} {
		id := s.runs(map[string]any{"run_at": 11, "planned_at": 99, "attempts": 2, "schedule": "every 2d", "unique_key": status})
		release := store.Change{Job: id, Token: token, Status: status, Plan: plan}
		for range 2 {
			s.apply([]store.Change{release}, []store.Outcome{{}})
			s.says(id, ofTime+" schedule unique_key", status+" - 11 12 1 every 2d "+status)
		}
	}
}

func endGuarded(s *suite) {
	plan := &journal.Plan{Schedule: "every 1d", Zone: "Asia/Tokyo"}
	none := &journal.Plan{}
	var null any
	for _, c := range []struct {
		name           string
		plan           *journal.Plan
		schedule, zone any
		edited         bool
	}{
		{"as it was", plan, "every 1d", "Asia/Tokyo", false},
		{"another schedule", plan, "every 2d", "Asia/Tokyo", true},
		{"another zone", plan, "every 1d", "Europe/Berlin", true},
		{"no zone", plan, "every 1d", null, true},
		{"no schedule", plan, null, "Asia/Tokyo", true},
		{"an empty one", plan, "", "Asia/Tokyo", true},
		{"none before, and none now", none, null, null, false},
		{"none before, and an empty one now", none, "", "", false},
		{"none before, and one now", none, "every 1d", null, true},
		{"no guard", nil, "every 2d", null, false},
	} {
		id := s.runs(map[string]any{"schedule": c.schedule, "time_zone": c.zone})
		for _, change := range []store.Change{again(id, c.plan, 500), {
			Job: id, Token: token, Status: journal.RowDone, Finish: time.Unix(finished, 0), Plan: c.plan, Done: ended("ok", code(0), "", "", ""),
		}} {
			s.exec("UPDATE jobs SET status = 'running', sig = ?, time_finished = 0 WHERE id = ?", token, id)
			outcomes, err := s.Table.Apply(s.Context(), []store.Change{change})
			if err != nil {
				s.Fatal(err)
			}
			fate, status := store.Applied, change.Status
			if c.edited {
				fate, status = store.Edited, journal.RowRunning
			}
			if outcomes[0].Fate != fate {
				s.Errorf("%s, %s: %+v", c.name, change.Status, outcomes[0])
			}
			s.says(id, "status", status)
			if found := outcomes[0].Found; c.edited && (found == nil || found.Plan == nil || found.Owner != token) {
				s.Errorf("%s: found %+v", c.name, found)
			} else if c.edited {
				want := &journal.Plan{Schedule: word(c.schedule), Zone: word(c.zone)}
				if diff := cmp.Diff(want, found.Plan); diff != "" {
					s.Errorf("%s: plan (-want +got):\n%s", c.name, diff)
				}
			}
		}
	}
}

func word(value any) string {
	text, _ := value.(string)
	return text
}

// Many ends of one turn, alike but for their schedules, of which one was edited.
func endsTogether(s *suite) {
	schedules := []string{"every 1d", "every 2d", "every 1d", "", "every 2d"}
	var changes []store.Change
	var ids []int64
	for i, schedule := range schedules {
		now := schedule
		if i == 4 {
			now = "every 9d"
		}
		ids = append(ids, s.runs(map[string]any{"schedule": now}))
		change := again(ids[i], &journal.Plan{Schedule: schedule}, 500)
		change.Done.Stdout, change.Done.Stderr = journal.Output{}, journal.Output{}
		changes = append(changes, change)
	}
	outcomes, err := s.Table.Apply(s.Context(), changes)
	if err != nil {
		s.Fatal(err)
	}
	for i, id := range ids {
		want, status := store.Applied, journal.RowDelayed
		if i == 4 {
			want, status = store.Edited, journal.RowRunning
		}
		if outcomes[i].Fate != want {
			s.Errorf("%d: %+v", i, outcomes[i])
		}
		s.says(id, "status", status)
	}
}

// An update that met no row, and which other workers have run since.
func endPassed(s *suite) {
	put := func(status, owner string, startedAt, finishedAt int64) int64 {
		id := s.put(timed{target: "a", status: status, owner: owner})
		s.exec("UPDATE jobs SET time_started = ?, time_finished = ?, result = 'ok' WHERE id = ?", startedAt, finishedAt, id)
		return id
	}
	running := func(id int64) store.Change {
		return store.Change{Job: id, Token: token, Status: journal.RowRunning, Start: time.Unix(started, 0)}
	}
	const other = "@othr00000"
	for name, c := range map[string]struct {
		change store.Change
		fate   store.Fate
		passed bool
	}{
		"a newer end":                {again(put(journal.RowDelayed, "", started+60, finished+60), &journal.Plan{}, 500), store.Applied, false},
		"an older end":               {again(put(journal.RowDelayed, "", started-60, finished-60), &journal.Plan{}, 500), store.Lost, false},
		"a newer end, and our token": {again(put(journal.RowDelayed, token, started+60, finished+60), &journal.Plan{}, 500), store.Lost, false},
		"it runs elsewhere":          {running(put(journal.RowRunning, other, started+60, finished)), store.Lost, true},
		"it ran before":              {running(put(journal.RowDelayed, "", started, finished)), store.Applied, false},
	} {
		outcomes, err := s.Table.Apply(s.Context(), []store.Change{c.change})
		if err != nil || outcomes[0].Fate != c.fate || outcomes[0].Passed != c.passed {
			s.Errorf("%s: %+v, %v", name, outcomes, err)
		}
	}
}

package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// dueTests are of which rows claims take, and who is told of them.
func dueTests() []test {
	return []test{
		{"due rows beside waiting ones, the earliest first", dueBeside},
		{"no more than there is room for", dueRoom},
		{"higher priority first", duePriority},
		{"a time that is a mistake", dueFarAway},
		{"due rows count as waiting", dueCounts},
		{"when the next row is due", nextDue},
		{"a row of an open transaction is due", dueOfOpen},
		{"many claimers, each row once", func(s *suite) {
			for range 30 {
				s.delayed("a", past())
				s.waitingSince("a", past())
			}
			s.race(60, s.Table)
		}},
	}
}

// taken is which rows a claim takes, in the order in which they are given.
func (s *suite) taken(room map[string]int, except ...int64) []int64 {
	s.Helper()
	decision := &acceptAll{token: token}
	err := s.Table.Claim(s.Context(), room, except, func(rows []journal.Row) ([]journal.Event, error) {
		decision.rows = rows
		return nil, nil
	})
	must.Do(s, err)
	return jobs(decision.rows)
}

func (s *suite) takes(room map[string]int, except []int64, want ...int64) {
	s.Helper()
	check.Diff(s, want, s.taken(room, except...), "rows of a claim")
}

func (s *suite) waitingSince(target string, created int64) int64 {
	s.Helper()
	return s.put(timed{target: target, status: journal.RowWaiting, created: created})
}

func dueBeside(s *suite) {
	now := time.Now().Unix()
	late := s.delayed("a", now-10)
	first := s.waitingSince("a", now-30)
	s.delayed("a", now+3600)
	early := s.delayed("a", now-20)
	last := s.waitingSince("a", now-5)
	never := s.delayed("a", 0)
	other := s.delayed("b", now-15)
	s.put(timed{target: "a", status: journal.RowManual, columns: map[string]any{"run_at": 1}})
	s.takes(map[string]int{"a": 9}, nil, never, first, early, late, last)
	s.takes(map[string]int{"a": 9, "b": 9, "c": 9}, []int64{never, first}, early, late, last, other)
	decision := &acceptAll{token: token}
	if err := s.Table.Claim(s.Context(), map[string]int{"a": 9}, nil, decision.decide); err != nil || len(decision.rows) != 5 {
		s.Fatalf("%v, %v", decision.rows, err)
	}
	s.says(late, "status sig run_at", "accepted "+token+" "+text(now-10))
	s.takes(map[string]int{"a": 9}, nil)
}

func dueRoom(s *suite) {
	now := time.Now().Unix()
	var due, waiting []int64
	for i := range int64(10) {
		due = append(due, s.delayed("a", now-200+2*i))
		waiting = append(waiting, s.waitingSince("a", now-199+2*i))
	}
	s.takes(map[string]int{"a": 5}, nil, due[0], waiting[0], due[1], waiting[1], due[2])
	s.takes(map[string]int{"a": 1}, due, waiting[0])
	s.takes(map[string]int{"a": 1}, waiting, due[0])
	if n := len(s.taken(map[string]int{"a": 100})); n != 20 {
		s.Errorf("%d rows, want 20", n)
	}
}

func duePriority(s *suite) {
	now := time.Now().Unix()
	put := func(status string, at, priority int64) int64 {
		return s.put(timed{target: "a", status: status, created: at, columns: map[string]any{"run_at": at, "priority": priority}})
	}
	plain := put(journal.RowWaiting, now-90, 0)
	urgent := put(journal.RowWaiting, now-10, 5)
	low := put(journal.RowWaiting, now-99, -3)
	dueUrgent := put(journal.RowDelayed, now-20, 5)
	dueTop := put(journal.RowDelayed, now-1, 9)
	duePlain := put(journal.RowDelayed, now-95, 0)
	put(journal.RowDelayed, now+3600, 100)
	s.takes(map[string]int{"a": 9}, nil, dueTop, dueUrgent, urgent, duePlain, plain, low)
	s.takes(map[string]int{"a": 1}, nil, dueTop)
	s.takes(map[string]int{"a": 2}, []int64{dueTop, dueUrgent}, urgent, duePlain)
}

// A time from the year 2100 on is one in milliseconds, or another mistake: nobody would ever see it
// come. Such a row is taken at once, behind all others, so that it can be told.
func dueFarAway(s *suite) {
	far := s.delayed("a", 4_102_444_800)
	late := s.delayed("a", 4_102_444_799)
	due := s.delayed("a", past())
	waiting := s.waitingSince("a", time.Now().Unix())
	s.takes(map[string]int{"a": 9}, nil, due, waiting, far)
	s.takes(map[string]int{"a": 2}, nil, due, waiting)
	s.says(late, "status", "delayed")
}

func dueCounts(s *suite) {
	due := s.delayed("a", past())
	s.delayed("b", soon())
	waiting := s.waitingSince("c", 77)
	s.waiting(nil, "a", "c")
	s.waiting([]int64{due}, "c")
	early := s.delayed("c", 55)
	for _, c := range []struct {
		target string
		most   int
		want   store.Counted
	}{
		{"c", 9, store.Counted{Rows: 2, Oldest: 55}},
		{"c", 1, store.Counted{Rows: 1, More: true, Oldest: 55}},
		{"b", 9, store.Counted{}},
		{"d", 9, store.Counted{}},
	} {
		got, err := s.Table.CountWaiting(s.Context(), c.target, c.most)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			s.Errorf("%s, %v (-want +got):\n%s", c.target, err, diff)
		}
	}
	s.exec("UPDATE jobs SET run_at = 99 WHERE id = " + text(early))
	if got, err := s.Table.CountWaiting(s.Context(), "c", 9); err != nil || got.Oldest != 77 {
		s.Errorf("%+v, %v; want row %d as the oldest", got, err, waiting)
	}
}

func nextDue(s *suite) {
	next := func(except ...int64) map[string]int64 {
		s.Helper()
		before := time.Now()
		due := must.Get(s.Table.NextDue(s.within(hung), []string{"a", "b", "c", "a"}, except))(s)
		if apart := due.Now.Sub(before); apart < -2*time.Second || apart > 30*time.Second {
			s.Errorf("the clock is %s off", apart)
		}
		return due.Next
	}
	if got := next(); len(got) > 0 {
		s.Errorf("without rows: %v", got)
	}
	at := soon()
	first := s.delayed("a", at)
	second := s.delayed("a", at+5)
	s.delayed("a", at+9)
	b := s.delayed("b", past())
	s.waitingSince("c", 1)
	s.delayed("d", at)
	s.delayed("c", journal.PausedAt) // which is never due
	got := next()
	if got["b"] < past()-60 || got["b"] > past()+60 {
		s.Errorf("of a row that is due: %v", got)
	}
	delete(got, "b")
	check.Diff(s, map[string]int64{"a": at}, got, "next")
	check.Diff(s, map[string]int64{"a": at + 9}, next(first, second, b), "beside some")
	if due, err := s.Table.NextDue(s.Context(), nil, nil); err != nil || len(due.Next) > 0 {
		s.Errorf("of no target: %v, %v", due, err)
	}
}

// A client that asks waits for nobody, and a claim passes by.
func dueOfOpen(s *suite) {
	if !s.RowLocks {
		s.Skip("transactions wait for each other here")
	}
	at := past()
	held, free := s.delayed("a", at), s.delayed("a", at+1)
	s.taken(map[string]int{"a": 1})
	tx := s.begin()
	s.execIn(tx, "UPDATE jobs SET priority = priority WHERE id = ?", held)
	s.execIn(tx, "SELECT * FROM jobs WHERE id = ? FOR UPDATE", held)
	s.execIn(tx, "INSERT INTO jobs (target, time_created, status, run_at) VALUES ('b', 1, 'delayed', 5)")
	s.quick(func() {
		s.waiting([]int64{free}, "a", "b")
		if due, err := s.Table.NextDue(s.Context(), []string{"a"}, nil); err != nil || due.Next["a"] != at {
			s.Errorf("%v, %v", due, err)
		}
		s.takes(map[string]int{"a": 9}, nil, free)
	})
}

// endTests are of what the mirror makes of rows.
func endTests() []test {
	return []test{
		{"a start counts", endOfStart},
		{"a row that comes back, twice", endComesBack},
		{"a row that is done frees its key, in reduced forms too", endFreesKey},
		{"given back as it was", endGivesBack},
		{"guarded by the schedule", endGuarded},
		{"several with several schedules", endsTogether},
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
			outcomes := must.Get(s.Table.Apply(s.Context(), []store.Change{change}))(s)
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
				check.Diff(s, want, found.Plan, "%s: plan", c.name)
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
	outcomes := must.Get(s.Table.Apply(s.Context(), changes))(s)
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

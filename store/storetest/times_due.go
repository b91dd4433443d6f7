package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
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
	if err != nil {
		s.Fatal(err)
	}
	return jobs(decision.rows)
}

func (s *suite) takes(room map[string]int, except []int64, want ...int64) {
	s.Helper()
	if diff := cmp.Diff(want, s.taken(room, except...)); diff != "" {
		s.Errorf("rows of a claim (-want +got):\n%s", diff)
	}
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
		due, err := s.Table.NextDue(s.within(hung), []string{"a", "b", "c", "a"}, except)
		if err != nil {
			s.Fatal(err)
		}
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
	if diff := cmp.Diff(map[string]int64{"a": at}, got); diff != "" {
		s.Errorf("next (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"a": at + 9}, next(first, second, b)); diff != "" {
		s.Errorf("beside some (-want +got):\n%s", diff)
	}
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
	must(s, tx, "UPDATE jobs SET priority = priority WHERE id = ?", held)
	must(s, tx, "SELECT * FROM jobs WHERE id = ? FOR UPDATE", held)
	s.quick(func() {
		s.waiting([]int64{free}, "a")
		if due, err := s.Table.NextDue(s.Context(), []string{"a"}, nil); err != nil || due.Next["a"] != at {
			s.Errorf("%v, %v", due, err)
		}
		s.takes(map[string]int{"a": 9}, nil, free)
	})
}

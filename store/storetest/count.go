package storetest

import (
	"jobd/journal"
	"jobd/store"
)

func countTests() []test {
	return []test{
		{"waiting rows, up to a limit", countedUpTo},
		{"it waits for no writer, and counts what others hold", countedThoughHeld},
		{"a name that no row can have", countedOfNobody},
	}
}

// counts compares how many rows wait for a target.
func (s *suite) counts(target string, most int, want store.Counted) {
	s.Helper()
	if got, err := s.Table.CountWaiting(s.within(hung), target, most); err != nil || got != want {
		s.Errorf("of %s, up to %d: %+v, %v, want %+v", target, most, got, err, want)
	}
}

func countedUpTo(s *suite) {
	s.counts("a", 10, store.Counted{})
	ids := s.insertAll(5, "a", journal.RowWaiting, "")
	s.insert("a", journal.RowManual, "")
	s.insert("a", journal.RowAccepted, token)
	s.insert("b", journal.RowWaiting, "")
	s.exec("UPDATE jobs SET time_created = 7 WHERE id = ?", ids[0]) // the lowest, not the earliest
	s.counts("a", 4, store.Counted{Rows: 4, More: true, Oldest: 7})
	s.counts("a", 5, store.Counted{Rows: 5, Oldest: 7})
	s.counts("b", 5, store.Counted{Rows: 1, Oldest: 1})
	s.counts("c", 5, store.Counted{})
}

func countedThoughHeld(s *suite) {
	s.insertAll(2, "a", journal.RowWaiting, "")
	s.counts("a", 5, store.Counted{Rows: 2, Oldest: 1}) // which examines the table
	tx := s.begin()
	must(s, tx, "UPDATE jobs SET status = 'accepted'")
	s.quick(func() { s.counts("a", 5, store.Counted{Rows: 2, Oldest: 1}) })
}

func countedOfNobody(s *suite) {
	s.insert("a", journal.RowWaiting, "")
	for _, name := range []string{"日本語 🙂", "a\xff", "no such target, and far longer than the column is"} {
		s.counts(name, 5, store.Counted{})
	}
}

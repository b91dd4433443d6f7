package storetest

func holdTests() []test {
	return []test{
		{"a lock has one holder, until it is closed", func(s *suite) {
			s.holds(true, "name:node-1", "mark:@abcd")
			first, err := s.Other.Hold(s.Context(), "name:node-1")
			if err != nil || first == "" {
				s.Fatalf("the other worker got %q, %v; want to hear who has it", first, err)
			}
			if again, err := s.Other.Hold(s.Context(), "name:node-1"); err != nil || again != first {
				s.Errorf("the same holder is called %q and %q (%v)", first, again, err)
			}
			if holder, err := s.Other.Hold(s.Context(), "name:node-2"); err != nil || holder != "" {
				s.Errorf("another name: %q, %v", holder, err)
			}
			s.holds(true, "name:node-1", "mark:@abcd")
			if err := s.Table.Close(); err != nil {
				s.Fatal(err)
			}
			s.eventuallyFree("name:node-1")
			s.eventuallyFree("mark:@abcd")
		}},
	}
}

// holds checks whether the table's own locks are its own.
func (s *suite) holds(want bool, names ...string) {
	s.Helper()
	for range 2 {
		for _, name := range names {
			if holder, err := s.Table.Hold(s.Context(), name); err != nil || (holder == "") != want {
				s.Errorf("lock %s: %q, %v", name, holder, err)
			}
		}
	}
}

// eventuallyFree takes a lock whose holder has just gone: a server needs a moment to notice.
func (s *suite) eventuallyFree(name string) {
	s.Helper()
	ctx := s.within(hung)
	for {
		holder, err := s.Other.Hold(ctx, name)
		if err != nil {
			s.Fatalf("lock %s is not free: %v", name, err)
		}
		if holder == "" {
			return
		}
	}
}

package exec

import (
	"slices"
	"testing"
	"time"
)

func TestAClockThatWasSetIsNoticed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ran, wall time.Duration
		want      bool
	}{
		{time.Minute, time.Minute, false},
		{time.Minute, time.Minute + 300*time.Millisecond, false},
		{time.Minute, 2 * time.Hour, true}, // set, or the machine has slept
		{time.Minute, -time.Hour, true},
	} {
		if got := jumped(test.ran, test.wall); got != test.want {
			t.Errorf("ran for %s, and %s by the clock on the wall: %t", test.ran, test.wall, got)
		}
	}
}

func TestDuesAreFewAndInOrder(t *testing.T) {
	t.Parallel()
	var d dues
	for at := int64(3 * mostDues); at > 0; at-- {
		d.add(at)
		d.add(at)
	}
	d.add(lastDue) // a mistake in milliseconds, for one: it is never due
	if len(d) != mostDues || !slices.IsSorted(d) || d[0] != 1 || d[mostDues-1] != mostDues {
		t.Fatalf("%d seconds are remembered, from %d to %d", len(d), d[0], d[len(d)-1])
	}
	if d.passed(time.Unix(1, 0)) {
		t.Error("a row is looked for before it can be found")
	}
	if !d.passed(dueAt(10)) || len(d) != mostDues-10 || d.next() != dueAt(11) {
		t.Errorf("%d seconds are left, the next at %s", len(d), d.next())
	}
	if d.passed(dueAt(10)) {
		t.Error("what has passed passes again")
	}
}

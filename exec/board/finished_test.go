package board

import (
	"testing"
	"time"
)

// When a job ended is told apart from its event only where the clock was set back while it ran: the
// event would be earlier than the end that its start and its duration tell.
func TestFinishedIsToldWhereTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const hour = int64(time.Hour / time.Microsecond)
	for _, test := range []struct {
		name    string
		began   time.Time
		elapsed int64
		want    time.Time // zero: the event's own time counts
	}{
		{"the clock goes on", now.Add(-time.Hour), hour, time.Time{}},
		{"the clock was set forward", now.Add(-3 * time.Hour), hour, time.Time{}},
		{"by less than the slack back", now.Add(-time.Hour + clockSlack/2), hour, time.Time{}},
		{"by more than the slack back", now.Add(-time.Hour + 2*clockSlack + time.Minute), hour, now.Add(2*clockSlack + time.Minute)},
		{"behind the start", now.Add(time.Hour), hour, now.Add(2 * time.Hour)},
		{"a short job, before it began", now.Add(time.Hour), 1, now.Add(time.Hour + time.Microsecond)},
		{"how long it ran is not known", now.Add(time.Hour), 0, time.Time{}},
		{"when it began is not known", time.Time{}, hour, time.Time{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			want := int64(0)
			if !test.want.IsZero() {
				want = test.want.UnixMicro()
			}
			if got := finished(test.began, test.elapsed, now); got < want-1 || got > want+1 { // the nanoseconds are cut off
				t.Errorf("%d, want %d", got, want)
			}
		})
	}
}

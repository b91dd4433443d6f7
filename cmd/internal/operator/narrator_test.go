package operator

import (
	"testing"
	"time"
)

// A run that somebody made due before its time is not told to be in time.
func TestARunBeforeItsTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	r := Run{planned: at.Unix(), timed: true}
	for _, test := range []struct {
		ahead time.Duration
		want  string
	}{
		{time.Hour, ", before its planned time"}, {time.Second, ", 0.00s later than planned"}, {-3 * time.Second, ", 3.00s later than planned"},
	} {
		r.late = ""
		if got := r.lateText(1, at.Add(-test.ahead)); got != test.want || (r.late == "") != (test.ahead == time.Hour) {
			t.Errorf("%s ahead: %q, and %q of it", test.ahead, got, r.late)
		}
	}
}

package replay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
)

func TestRemovedHistoryIsToldAsSuch(t *testing.T) {
	t.Parallel()
	j := journaltest.Rolled(t, 3, 2) // 30 events
	r := journaltest.OpenReader(t, j.Dir)
	if removed, err := r.Kept(t.Context()); err != nil || removed != nil {
		t.Fatalf("of a whole history: %v, %v", removed, err)
	}
	last := journaltest.Events(t, r, journal.Filter{Last: 21})[0] // event 10, the last of segment 1
	journaltest.MustMaintain(t, j)
	j.SetPosition(30)
	j.Reopen(t, func(c *eventlog.Config) { c.Retention = time.Nanosecond })
	j.At(last.Time.Add(time.Microsecond)) // only segment 1 is old enough
	journaltest.MustMaintain(t, j)
	want := &journal.RemovedError{First: 11, Since: last.Time}
	removed, err := r.Kept(t.Context())
	if err != nil || cmp.Diff(want, removed) != "" {
		t.Fatalf("%v, %v, not %v", removed, err, want)
	}
	for name, read := range map[string]func() error{
		"events behind one that is gone": func() error { return journaltest.Drain(r, journal.Filter{After: 9}) },
		"the state at a time before":     func() error { _, err := r.State(t.Context(), last.Time.Add(-time.Microsecond)); return err },
		"jobs at a time before": func() error {
			for _, err := range r.Jobs(t.Context(), last.Time.Add(-time.Microsecond)) {
				return err
			}
			return nil
		},
	} {
		var got *journal.RemovedError
		if err := read(); !errors.As(err, &got) || cmp.Diff(want, got) != "" {
			t.Errorf("%s: %v, not %v", name, err, want)
		}
	}
	for name, read := range map[string]func() error{
		"events behind the last that is gone": func() error { return journaltest.Drain(r, journal.Filter{After: 10}) },
		"all events":                          func() error { return journaltest.Drain(r, journal.Filter{}) },
		"the state then":                      func() error { _, err := r.State(t.Context(), last.Time); return err },
	} {
		if err := read(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

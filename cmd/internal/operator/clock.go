package operator

import (
	"time"

	"jobd/journal"
)

// Clock is by what times are told.
type Clock struct {
	Now      time.Time
	Location *time.Location
	Brief    bool // for people: to the second, with a date only where that is not today's
}

// Stamp is a moment, to the microsecond as the journal has it; "" of none.
func (c Clock) Stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.In(c.Location).Format("2006-01-02 15:04:05.000000")
}

// Moment is a moment as the clock wants it: brief, or else the stamp.
func (c Clock) Moment(at time.Time) string {
	if !c.Brief || at.IsZero() {
		return c.Stamp(at)
	}
	at, now := at.In(c.Location), c.Now.In(c.Location)
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

// Seconds is a moment of the table, which has whole seconds. When a row is due may be never, while its
// schedule is paused.
func (c Clock) Seconds(unix int64) string {
	switch {
	case unix == 0:
		return ""
	case unix == journal.PausedAt:
		return "paused"
	case c.Brief:
		return c.Moment(time.Unix(unix, 0))
	}
	return time.Unix(unix, 0).In(c.Location).Format(time.DateTime)
}

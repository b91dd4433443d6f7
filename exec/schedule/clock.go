package schedule

import (
	"math"
	"time"
)

// apart is more than the clocks of any two zones ever are: so far from a change of clocks, nothing
// that the clock shows can be shown again.
const apart = 2 * day

// period is a time without a change of clocks: until then, and not then, the clock on the wall is
// ahead of UTC by offset seconds.
type period struct{ until, offset int64 }

// periodAt is the period of zone that a moment is in, from this moment on. It may end before the next
// change of clocks, but never before the moment: for the last day of leap years package time names an
// end that has passed. Where a period began is not told there reliably, so nothing here asks for it.
func periodAt(moment int64, zone *time.Location) period {
	local := time.Unix(moment, 0).In(zone)
	_, offset := local.Zone()
	_, bound := local.ZoneBounds()
	until := int64(math.MaxInt64)
	if !bound.IsZero() {
		until = bound.Unix()
	}
	if until <= moment {
		until = moment - moment%day + day
	}
	return period{until, int64(offset)}
}

// shown is the latest time that the clock on the wall has shown up to a moment, that moment included.
// After the clock was put back, it is later than what the clock shows.
func shown(moment int64, zone *time.Location) int64 {
	latest := int64(math.MinInt64)
	p := periodAt(moment-apart, zone)
	for ; p.until <= moment; p = periodAt(p.until, zone) {
		latest = max(latest, p.until-1+p.offset)
	}
	return max(latest, moment+p.offset)
}

// reached is the first moment at which the clock shows a time, or a later one because it was put
// forward over it.
func reached(wall int64, zone *time.Location) int64 {
	moment := wall - apart
	for {
		p := periodAt(moment, zone)
		moment = max(moment, wall-p.offset)
		if moment < p.until {
			return moment
		}
		moment = p.until
	}
}

// nextFixed is the first moment after another one at which the clock reaches a time of the calendar
// for the first time; end if there is none before.
func (c *calendar) nextFixed(after int64, zone *time.Location) int64 {
	wall, ok := c.next(shown(after, zone))
	if !ok {
		return end
	}
	return reached(wall, zone)
}

// nextShown is the first moment after another one at which the clock shows a time of the calendar;
// end if there is none before.
func (c *calendar) nextShown(after int64, zone *time.Location) int64 {
	for moment := after + 1; moment < end; {
		p := periodAt(moment, zone)
		wall, ok := c.next(moment + p.offset - 1)
		if !ok {
			return end
		}
		if wall-p.offset < p.until {
			return wall - p.offset
		}
		// None in the rest of this period. Once no earlier time can be shown again, none is due
		// until the clock is near the one that was found.
		if p.until > moment+apart {
			moment = wall - apart
		}
		moment = max(moment, p.until)
	}
	return end
}

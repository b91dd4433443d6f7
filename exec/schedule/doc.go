// Package schedule is when a job recurs: the grammar of schedule texts (`every 15m`, `daily 02:30`,
// `30 2 * * 1-5`), and when each is next due in a zone. It knows no job, no table and no clock: the
// time is passed in. docs/time.md has the forms and the rules for those who write schedules.
//
// # How a plan is made
//
// A Schedule is either an interval, which is elapsed time, or a calendar: sets of minutes, hours,
// days and months that times on the clock on the wall match. Only clock.go knows that this clock is
// sometimes put forward or back:
//
//   - A fixed time is due when the clock on the wall first shows it, or a later time: so one that is
//     left out is due at the end of the gap, one that is shown twice in its first pass, and those
//     that would be due at the same moment are one.
//   - What follows the wall clock (the hour is exactly `*`) is due whenever the clock shows it: in
//     both passes of a repeated hour, and not in a gap.
//
// # The crash argument
//
// A Schedule has no state. What is due next follows from the text, the zone and a moment, all three
// of which are in the journal: a worker that plans again after a crash comes to the same time. Only a
// tz database with other rules leads to another one, and then the journal has the time that was
// meant.
package schedule

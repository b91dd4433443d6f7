package wire

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"jobd/journal"
)

// Limit is for how long a process may run.
type Limit struct {
	Timeout time.Duration // then its group gets SIGTERM; 0: there is no limit
	Kill    time.Duration // how much later it gets SIGKILL
}

// deadline is the variable by which a job is told when it gets SIGTERM, in seconds since 1970.
const deadline = "JOBD_DEADLINE="

// Vars gives the variables of a job that begins now. It may have waited since they were made.
func (l Limit) Vars(vars []string, now time.Time) []string {
	i := slices.IndexFunc(vars, func(v string) bool { return strings.HasPrefix(v, deadline) })
	if i < 0 || l.Timeout <= 0 {
		return vars
	}
	vars = slices.Clone(vars)
	vars[i] = deadline + strconv.FormatInt(now.Add(l.Timeout).Unix(), 10)
	return vars
}

// Overrun is what was done to a process that has run for longer than it may. The runner decides by
// it, and, for a process whose runner can't, the worker. The zero value is that of a process that
// has no limit.
type Overrun struct {
	limit Limit
	due   int64 // the uptime at which the next signal is sent; never: none is
	sent  int   // how many steps were taken: SIGTERM, SIGKILL
}

// never is an uptime that does not come.
const never = math.MaxInt64

// From gives the limit of a process that was started at an uptime.
func (l Limit) From(started int64) Overrun {
	if l.Timeout <= 0 {
		return Overrun{}
	}
	return Overrun{limit: l, due: later(started, l.Timeout)}
}

// later is an uptime and a time behind it, which may be longer than any clock lasts.
func later(at int64, by time.Duration) int64 {
	if int64(by) > never-at {
		return never
	}
	return at + int64(by)
}

// Due is the uptime at which the runner sends the next signal, if it ever does.
func (o *Overrun) Due() (at int64, ever bool) {
	return o.due, o.limit.Timeout > 0 && o.due != never
}

// Next gives the signals to send now. A process that is stopped must go on to act on a SIGTERM. The
// time until SIGKILL counts from here: a job whose SIGTERM was late, because the host or the runner
// stood still, has no less of it.
func (o *Overrun) Next(now int64) []unix.Signal {
	if o.sent++; o.sent == 1 {
		o.due = later(now, o.limit.Kill)
		return []unix.Signal{unix.SIGTERM, unix.SIGCONT}
	}
	o.due = never
	return []unix.Signal{unix.SIGKILL}
}

// Happened tells whether the process got a signal because of its limit.
func (o *Overrun) Happened() bool { return o.sent > 0 }

// Mark makes an outcome that of a process which got a signal because of its limit: a failure,
// whatever its exit code.
func (o *Overrun) Mark(done *journal.Done) {
	if !o.Happened() {
		return
	}
	done.Result = "fail"
	done.Timeout = int64((o.limit.Timeout-1)/time.Second) + 1
	note := fmt.Sprintf("ended after its timeout of %s, with SIGTERM", o.limit.Timeout)
	if o.sent > 1 {
		note += fmt.Sprintf(" and, %s later, SIGKILL", o.limit.Kill)
	}
	if done.Note != "" {
		note += "; " + done.Note
	}
	done.Note = note
}

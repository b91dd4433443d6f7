package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/screen"
	jobnet "jobd/net"
	"jobd/net/api"
)

// State is how monitoring wants to be told how things are.
type State int

// The states, and the exit codes of Nagios and its like.
const (
	OK State = iota
	Warning
	Critical
	Unknown
)

// String is the word for it.
func (s State) String() string { return [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}[s] }

// Problem is something that is wrong, in a sentence.
type Problem struct {
	State  State
	Code   string // a word for it: silent, down, unserved, old, …, or what a Trouble has
	Worker string // of a master's workers, the one that it is about; "": none, or all
	Target string // that it is about; "": none, or all
	Text   string
}

// Health is how a daemon is, and all that it leads to.
type Health struct {
	State    State
	Who      string    // the daemon that was asked
	Problems []Problem // the worst first
	Notes    []string  // what there is to tell beside them

	limits Limits
	now    time.Time
	lasts  func(since time.Time) string // says how long something has lasted, or since when
}

// HealthOf asks a daemon how it is. That it gives no answer is a problem, too; the error is that of a
// question which somebody broke off.
func HealthOf(ctx context.Context, d *Daemon, limits Limits, now time.Time) (*Health, error) {
	h := healthAt(limits, now)
	h.Who = d.Where()
	s, err := TakeCensus(ctx, d)
	switch {
	case err == nil:
		s.Others = s.Master != nil // else other workers may serve them
		s.Count(ctx, append(s.Targets(), s.Unserved()...))
		h.judge(s)
	case exit.Interrupted(ctx):
		return nil, exit.Why(ctx, err)
	default:
		h.find(stateOf(err), Problem{Code: "silent"}, "%s", strings.TrimPrefix(screen.Clean(err.Error()), h.Who+": "))
	}
	return h, nil
}

// Health is how a daemon is, by what it and all that it leads to have told.
func (s *Census) Health(limits Limits, now time.Time) *Health {
	h := healthAt(limits, now)
	h.judge(s)
	return h
}

func healthAt(limits Limits, now time.Time) *Health {
	return &Health{limits: limits, now: now, lasts: func(since time.Time) string { return " for " + screen.Length(now.Sub(since)) }}
}

// Problems are what is wrong, the worst first, with the moments since when.
func (s *Census) Problems(clock Clock) []Problem {
	h := &Health{now: clock.Now, lasts: func(since time.Time) string { return " since " + clock.Moment(since) }}
	h.judge(s)
	return h.Problems
}

// stateOf is how bad it is that there is no answer: a daemon that can't be reached or does not
// answer is critical; one that says no, for want of the password, say, leaves unknown how it is.
func stateOf(err error) State {
	var refused *jobnet.RemoteError
	switch {
	case exit.Code(err) == exit.Connect:
		return Critical
	case exit.Code(err) == exit.Usage, IsPassword(err), errors.As(err, &refused):
		return Unknown
	}
	if Unanswered(err) {
		return Critical
	}
	return Unknown
}

// find adds a problem.
func (h *Health) find(s State, p Problem, format string, args ...any) {
	p.State, p.Text = s, fmt.Sprintf(format, args...)
	if s > h.State {
		h.State = s
		h.Problems = append([]Problem{p}, h.Problems...)
		return
	}
	h.Problems = append(h.Problems, p)
}

// judge says how a worker is, or a master and its workers.
func (h *Health) judge(s *Census) {
	if s.Master == nil {
		status := s.Workers[0].Value
		h.Who = "worker " + cmp.Or(screen.Clean(status.Name), "at "+h.Who)
		h.worker(status, "", Critical)
	} else {
		h.Who = "master at " + h.Who
		h.fleet(s)
	}
	h.targets(s)
	h.owed(s)
}

// fleet judges the workers of a master. One that takes no work is a warning while others do.
func (h *Health) fleet(s *Census) {
	for _, t := range s.Master.Troubles {
		lasts := ""
		if !t.Since.IsZero() {
			lasts = h.lasts(t.Since)
		}
		h.find(Warning, Problem{Code: "master-refuses"}, "%s%s: %s", masterTrouble(t), lasts, screen.InALine(t.Why))
	}
	ready := 0
	for _, w := range s.Workers {
		if w.Err == nil && Ready(w.Value) {
			ready++
		}
	}
	bad := Critical
	if ready > 0 {
		bad = Warning
	}
	for _, w := range s.Workers {
		if w.Err != nil {
			h.find(bad, Problem{Code: "silent", Worker: w.From.Name}, "worker %s: %s", screen.Clean(w.From.Name), screen.Clean(w.Err.Error()))
			continue
		}
		h.worker(w.Value, w.From.Name, bad)
	}
	if workers := screen.Count(len(s.Workers), "worker"); len(s.Workers) > 0 {
		h.Notes = append(h.Notes, workers)
	} else {
		h.find(Critical, Problem{Code: "no-workers"}, "%s registered", workers)
	}
	for i, w := range s.Master.Down {
		if i == mostOfASort {
			h.find(Warning, Problem{Code: "down"}, "and %d more workers", len(s.Master.Down)-i)
			break
		}
		h.find(Warning, Problem{Code: "down", Worker: w.Name}, "worker %s down%s", screen.Clean(w.Name), h.lasts(time.UnixMilli(w.Since)))
	}
	for i, u := range s.Master.Unserved {
		if i == mostOfASort {
			h.find(Warning, Problem{Code: "unserved"}, "and %d more targets", s.Master.UnservedCount-i)
			break
		}
		h.find(Warning, Problem{Code: "unserved", Target: u.Target}, "target %s was poked, and no worker serves it%s", screen.Clean(u.Target), h.lasts(time.UnixMilli(u.Since)))
	}
}

// mostOfASort is how many of one sort of problem are named.
const mostOfASort = 3

// worker judges what a worker tells of itself.
func (h *Health) worker(status *api.WorkerStatus, name string, bad State) {
	before := ""
	if name != "" {
		before = "worker " + screen.Clean(name) + ": "
	}
	for _, t := range Troubles(status) {
		how, lasts := Warning, ""
		if t.Hinders {
			how = bad
		}
		if !t.Since.IsZero() {
			lasts = h.lasts(t.Since)
		}
		h.find(how, Problem{Code: t.code, Worker: name, Target: t.target}, "%s%s%s: %s", before, screen.Clean(t.Effect), lasts, screen.InALine(t.Cause))
	}
	if since := status.ConfigRefused; !since.IsZero() {
		h.find(Warning, Problem{Code: "configuration", Worker: name}, "%sits configuration has had a mistake%s, and the old one stays in force (jobctl reload shows the line)", before, h.lasts(since))
	}
}

// targets judges what waits, for each target over all workers.
func (h *Health) targets(s *Census) {
	var running, slots, waiting int
	why := map[string]string{} // of those that stand
	for _, t := range s.Tallies() {
		running, slots = running+t.Running, slots+t.Slots
		why[t.Target] = t.standstill()
	}
	for _, name := range slices.Sorted(maps.Keys(s.Waiting)) {
		w := s.Waiting[name]
		waiting += w.Count
		if w.Count == 0 || w.Oldest == 0 {
			continue
		}
		age := h.now.Sub(time.Unix(w.Oldest, 0))
		if _, served := why[name]; !served {
			why[name] = ", which no worker serves,"
		}
		if bad := h.limits.oldest(age); bad > OK {
			h.find(bad, Problem{Code: "old", Target: name}, "the oldest row of target %s%s waits for %s", screen.Clean(name), why[name], screen.Length(age))
		}
	}
	for _, err := range s.Why {
		if h.State == OK { // else it is known why
			h.find(Unknown, Problem{Code: "uncounted"}, "the number of waiting rows is not known: %s", screen.Clean(err.Error()))
		}
	}
	wait := rowsWait(api.WaitingTarget{Count: waiting})
	if s.lost {
		wait = "how many rows wait is not known"
	}
	h.Notes = append(h.Notes, fmt.Sprintf("%d of %s in use, %s", running, screen.Count(slots, "slot"), wait))
}

// owed judges what the table is owed: events that it does not show, and rows that can't be changed.
func (h *Health) owed(s *Census) {
	var lag int64
	var behind time.Duration
	count, longest := 0, time.Duration(0)
	for _, w := range s.Workers {
		if w.Err != nil {
			continue
		}
		if j := w.Value.Journal; j != nil {
			lag = max(lag, Owed(j))
			if !j.UnshownSince.IsZero() {
				behind = max(behind, h.now.Sub(j.UnshownSince))
			}
		}
		count += Quarantined(w.Value)
		for _, row := range w.Value.Quarantined {
			longest = max(longest, h.now.Sub(row.Since))
		}
	}
	if bad := judge(lag, lagWarning, lagCritical); bad > OK {
		h.find(bad, Problem{Code: "lag"}, "the table does not show %d events yet", lag)
	}
	if h.limits.MaxLag > 0 && behind >= h.limits.MaxLag {
		h.find(Critical, Problem{Code: "behind"}, "the table is %s behind the journal", screen.Length(behind))
	}
	if count > 0 && longest >= asideWarning {
		h.find(Warning, Problem{Code: "quarantined"}, "%s quarantined, the first for %s", screen.Count(count, "row"), screen.Length(longest))
	}
}

// judge tells how bad a number is.
func judge[N int64 | time.Duration](n, warning, critical N) State {
	switch {
	case n >= critical:
		return Critical
	case n >= warning:
		return Warning
	}
	return OK
}

// Limits are all that health goes by and that somebody may set.
type Limits struct {
	MaxAge time.Duration // critical where the oldest row has waited longer; 0: oldWarning and oldCritical count
	MaxLag time.Duration // critical where the table has been behind for longer; 0: not judged
}

// From which on numbers are bad where nobody says otherwise.
const (
	oldWarning, oldCritical = 15 * time.Minute, time.Hour // the oldest row of a target
	lagWarning, lagCritical = 10_000, 1_000_000           // events that the table does not show
	asideWarning            = 15 * time.Minute            // a row that is quarantined
)

// oldest tells how bad the age of a target's oldest row is.
func (l Limits) oldest(age time.Duration) State {
	if l.MaxAge > 0 {
		return judge(age, l.MaxAge, l.MaxAge)
	}
	return judge(age, oldWarning, oldCritical)
}

// rowsWait says how many rows wait.
func rowsWait(w api.WaitingTarget) string {
	switch {
	case w.More:
		return fmt.Sprintf("%d+ rows wait", w.Count)
	case w.Count == 1:
		return "1 row waits"
	}
	return screen.Count(w.Count, "row") + " wait"
}

// Owed is how many events the table does not show yet.
func Owed(j *api.JournalStatus) int64 { return int64(j.Events) - int64(min(j.Mirrored, j.Events)) }

// Quarantined is how many rows a worker has quarantined, of which it may list the first only.
func Quarantined(s *api.WorkerStatus) int { return max(s.QuarantinedCount, len(s.Quarantined)) }

// standstill says of a target that stands why it does, as an aside within a sentence; of another one nothing.
func (t Tally) standstill() string {
	switch {
	case !t.Stands():
		return ""
	case t.Unable == 0:
		return ", which is paused,"
	}
	return ", whose jobs can't be started,"
}

// Trouble is something that keeps a worker from its work, or may soon: what it means, since when, and why.
type Trouble struct {
	code    string // a word for it: database, journal, runner, launcher, or what else a worker is not ready for
	Effect  string
	Since   time.Time // zero: not known
	Cause   string    // what somebody else says; it may have several lines
	Hinders bool      // the worker takes no work
	target  string    // of which no job, or no new process, starts; "": it is about all
}

// Troubles are those that a worker tells of, what hinders it first.
func Troubles(s *api.WorkerStatus) (list []Trouble) {
	reasons := slices.Clone(s.NotReady)
	part := func(is bool, name, effect, cause string, since time.Time) {
		if !is {
			return
		}
		if i := slices.IndexFunc(reasons, func(r api.NotReady) bool { return r.What == name }); i >= 0 {
			cause = cmp.Or(cause, reasons[i].Why)
			reasons = slices.Delete(reasons, i, i+1)
		}
		list = append(list, Trouble{code: name, Effect: effect, Since: since, Cause: cause, Hinders: true})
	}
	if d := s.Database; d != nil {
		part(!d.Reachable, "database", "the database is away", d.Error, d.Since)
	}
	if j := s.Journal; j != nil {
		part(j.Full != "", "journal", "the journal's disk is full", j.Full, j.FullSince)
	}
	if r := s.Runner; r != nil {
		part(!r.Reachable, "runner", "the runner is not connected", r.Error, r.Since)
	}
	if h := s.Launcher; h != nil {
		part(true, "launcher", "nothing is started", h.Broken, h.Since)
	}
	for _, r := range reasons {
		cause := r.What + ": " + r.Why
		if r.What == "stopping" {
			cause = "it is stopping"
		}
		list = append(list, Trouble{code: r.What, Effect: "it takes no work", Since: r.Since, Cause: cause, Hinders: true})
	}
	for i := range s.Executors {
		switch e := &s.Executors[i]; {
		case e.Unready != "":
			list = append(list, Trouble{code: "executor", Effect: "no job of target " + e.Target + " can be started", Since: time.UnixMilli(e.Since), Cause: e.Unready, target: e.Target})
		case e.Failing != "":
			list = append(list, Trouble{code: "executor", Effect: "no new process for target " + e.Target + " gets ready", Since: time.UnixMilli(e.Since), Cause: e.Failing, target: e.Target})
		}
	}
	for _, m := range s.Masters {
		if !m.Registered {
			list = append(list, Trouble{code: "unregistered", Effect: "it is not registered with the master " + m.Address, Since: m.Since, Cause: m.Error})
		}
	}
	return list
}

// Ready tells whether a worker takes work.
func Ready(s *api.WorkerStatus) bool {
	return !slices.ContainsFunc(Troubles(s), func(t Trouble) bool { return t.Hinders })
}

// masterTrouble is what a master's own trouble means.
func masterTrouble(t api.NotReady) string {
	if t.What == "principals" {
		return "the master's file of principals has a mistake; its former lines stay in force"
	}
	return "the master refuses changes"
}

package operator

import (
	"cmp"
	"slices"
	"time"

	"jobd/net/api"
)

// Trouble is something that keeps a worker from its work, or may soon: what it means, since when, and why.
type Trouble struct {
	code    string // a word for it: database, journal, runner, launcher, or what else a worker is not ready for
	Effect  string
	Since   time.Time // zero: not known
	Cause   string    // what somebody else says; it may have several lines
	Hinders bool      // the worker takes no work
	Target  string    // of which no job, or no new process, starts; "": it is about all
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
			list = append(list, Trouble{code: "executor", Effect: "no job of target " + e.Target + " can be started", Since: time.UnixMilli(e.Since), Cause: e.Unready, Target: e.Target})
		case e.Failing != "":
			list = append(list, Trouble{code: "executor", Effect: "no new process for target " + e.Target + " gets ready", Since: time.UnixMilli(e.Since), Cause: e.Failing, Target: e.Target})
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

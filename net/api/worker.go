package api

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode"

	jobnet "jobd/net"
	"jobd/net/principal"
)

// What a worker answers. Status has the answer of its own file.
var (
	Poll     = declare[Targets, Done](Kind{Name: "poll", scope: principal.Submit}, readTargets)
	Pause    = declare[Targets, Done](Kind{Name: "pause", scope: principal.Admin, Changes: true}, readTargets)
	Continue = declare[Targets, Done](Kind{Name: "continue", scope: principal.Admin, Changes: true}, readTargets)

	Recycle = declare[Targets, Done](Kind{Name: "recycle", scope: principal.Admin, Changes: true}, readTargets)

	AddTarget      = declare[Slots, Done](Kind{Name: "add-target", scope: principal.Admin, Changes: true}, readNewTarget)
	SetConcurrency = declare[Slots, Done](Kind{Name: "set-target-concurrency", scope: principal.Admin, Changes: true, OneWorker: true}, readSlots)
	RemoveTarget   = declare[Target, Done](Kind{Name: "remove-target", scope: principal.Admin, Changes: true}, readTarget)

	Status     = declare[None, WorkerStatus](Kind{Name: "status", scope: principal.Status}, readNone)
	RunManual  = declare[Manual, Outcomes](Kind{Name: "run-manual", scope: principal.Submit, Changes: true, Slow: true}, readManual)
	SendSignal = declare[Signals, Delivered](Kind{Name: "send-signal", scope: principal.Run, Changes: true}, readSignals)
	Reload     = declare[None, Reloaded](Kind{Name: "reload", scope: principal.Admin, whole: true, Changes: true, Slow: true, OneWorker: true}, readNone)
	Restart    = declare[Restarting, Restarted](Kind{Name: "restart", scope: principal.Admin, whole: true, Changes: true, OneWorker: true}, readRestarting)
)

// Target is the data of a request about one target.
type Target struct {
	Target string `json:"target"`
}

func readTarget(r *reader) Target { return Target{r.target()} }

// Slots is the data of a request about how many jobs of a target may run at once.
type Slots struct {
	Concurrency int    `json:"concurrency"`
	Target      string `json:"target"`
}

// readNewTarget is readSlots of a target that is new: its name will stand in terminals and logs.
func readNewTarget(r *reader) Slots {
	s := readSlots(r)
	if strings.ContainsFunc(s.Target, unicode.IsControl) {
		r.refuse("target %q has a control character in its name; allowed: any other text", s.Target)
	}
	return s
}

func readSlots(r *reader) Slots {
	target := r.target()
	return Slots{Target: target, Concurrency: int(r.Int("concurrency"))}
}

// Manual is the data of a worker's run-manual.
type Manual struct {
	IDs []jobnet.Whole `json:"ids"`
	By  string         `json:"by,omitempty"` // from a master: the client that asks
}

func readManual(r *reader) Manual { return Manual{IDs: r.ids(math.MaxInt)} }

// Outcomes is the answer to run-manual: each job is in one of its parts, each of which is there
// only where it has entries.
type Outcomes struct {
	Jobs   map[jobnet.Whole]Outcome `json:"jobs,omitempty"`
	Errors map[jobnet.Whole]string  `json:"errors,omitempty"`
}

// Outcome is how a job ended that a client waited for.
type Outcome struct {
	Result string  `json:"result"` // ok or fail
	Code   *int    `json:"code"`   // nil where a signal ended it
	Signal *string `json:"signal"` // its name; nil where none ended it
	Stdout string  `json:"stdout"`
	Stderr string  `json:"stderr"`
}

// mostSignals is how many jobs one request may signal: each signal is journalled before it is sent.
const mostSignals = 10_000

// Signals is the data of a worker's send-signal.
type Signals struct {
	Jobs map[jobnet.Whole]int `json:"jobs"`         // the signals' numbers
	By   string               `json:"by,omitempty"` // from a master: the client that asks

	// Odd are the names that are no ids, and the ids whose signal is no number: nothing is
	// delivered. It is true where more than a probe was asked for.
	Odd map[string]bool `json:"-"`
}

func readSignals(r *reader) (s Signals) {
	jobs := jobnet.FieldsOf(r.Fields["jobs"])
	r.limit(len(jobs), mostSignals, "too many jobs: at most %d are allowed")
	s.Jobs, s.Odd = make(map[jobnet.Whole]int, len(jobs)), make(map[string]bool)
	for name, value := range jobs {
		id, err := strconv.ParseInt(name, 10, 64)
		signo, whole := jobnet.Integer(value)
		if err == nil && whole && strconv.FormatInt(id, 10) == name {
			s.Jobs[jobnet.Whole(id)] = int(signo)
		} else {
			s.Odd[name] = !whole || signo != 0
		}
	}
	return s
}

// Delivered is the answer to send-signal.
type Delivered struct {
	Jobs   map[string]bool   // by what the request named the job: true where the signal was delivered
	Errors map[string]string // of a master: why nobody could be asked, or somebody could not
}

// MarshalJSON implements json.Marshaler.
func (d Delivered) MarshalJSON() ([]byte, error) {
	if len(d.Errors) == 0 {
		if d.Jobs == nil {
			return []byte("{}"), nil
		}
		return json.Marshal(d.Jobs)
	}
	all := make(map[string]any, len(d.Jobs)+1)
	for name, sent := range d.Jobs {
		all[name] = sent
	}
	all["errors"] = d.Errors
	return json.Marshal(all)
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Delivered) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	if errors, there := all["errors"]; there {
		if err := json.Unmarshal(errors, &d.Errors); err != nil {
			return err
		}
		delete(all, "errors")
	}
	d.Jobs = make(map[string]bool, len(all))
	for name, sent := range all {
		d.Jobs[name] = string(sent) == "true"
	}
	return nil
}

// Reloaded is the answer to reload.
type Reloaded struct {
	File    string   `json:"file"`
	Changed []string `json:"changed,omitempty"` // keys that differ from those that were read last
	Later   []string `json:"later,omitempty"`   // keys that differ from those of the start, and count from the next one on

	Warnings []string `json:"warnings,omitempty"` // about the file: unknown keys, say

	// The targets that stand otherwise than before, also where somebody had changed them by hand.
	Before map[string]TargetStatus `json:"before,omitempty"`
	After  map[string]TargetStatus `json:"after,omitempty"`
}

// Restarting is the data of restart.
type Restarting struct {
	Next bool `json:"next,omitempty"` // the answer should tell what follows
}

func readRestarting(r *reader) Restarting { return Restarting{Next: r.Has("next")} }

// Restarted is the answer to restart: the text "ok", or what follows this process.
type Restarted struct{ Next *Successor }

// Successor is the process that follows one that restarts, as far as it is known before.
type Successor struct {
	PID     int    `json:"pid"`
	Address string `json:"address"` // where it will listen
}

// MarshalJSON implements json.Marshaler.
func (r Restarted) MarshalJSON() ([]byte, error) {
	if r.Next == nil {
		return []byte(`"ok"`), nil
	}
	return json.Marshal(r.Next)
}

// UnmarshalJSON implements json.Unmarshaler. A value that is no object tells of no successor.
func (r *Restarted) UnmarshalJSON(data []byte) error {
	if jobnet.TypeOf(data) == "object" {
		_ = json.Unmarshal(data, &r.Next)
	}
	return nil
}

// longestTarget is how many bytes a target may have that a worker is asked about.
const longestTarget = 1024

// Targets is the data of the requests about targets.
type Targets struct {
	Detail  bool     `json:"detail,omitempty"`  // of a master: the answer should tell whom that is about
	Targets []string `json:"targets,omitempty"` // none: all of them
	By      string   `json:"by,omitempty"`      // from a master: the client that asks, see net.Link
}

func readTargets(r *reader) Targets { return Targets{Targets: r.anyTargets(longestTarget)} }

// Done is the answer of the requests that are carried out at once: the text "ok", or, to a client
// that asked a master for detail, which workers that was about.
type Done struct {
	Result   string   // "" is "ok"
	Unserved []string // those of the targets that no registered worker serves
	Workers  *int     // that serve one of them, or all where none were named; nil: the answer has no detail
}

// doneForm is an answer with detail on the wire.
type doneForm struct {
	Result   string   `json:"result"`
	Unserved []string `json:"unserved"`
	Workers  *int     `json:"workers"`
}

// MarshalJSON implements json.Marshaler.
func (d Done) MarshalJSON() ([]byte, error) {
	d.Result = cmp.Or(d.Result, "ok")
	if d.Workers == nil {
		return json.Marshal(d.Result)
	}
	if d.Unserved == nil {
		d.Unserved = []string{}
	}
	return json.Marshal(doneForm(d))
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Done) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &d.Result) == nil {
		return nil
	}
	return json.Unmarshal(data, (*doneForm)(d))
}

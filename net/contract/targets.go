package contract

import (
	"cmp"
	"encoding/json"

	jobnet "jobd/net"
)

// What a worker takes in a list of targets.
const (
	mostTargets   = 10_000
	longestTarget = 1024 // bytes
)

// Targets is the data of the requests about targets.
type Targets struct {
	Detail  bool     `json:"detail,omitempty"`  // of a master: the answer is to tell whom that is about
	Targets []string `json:"targets,omitempty"` // none: all of them
	By      string   `json:"by,omitempty"`      // from a master: the client that asks, see net.Caller
}

// readTargets reads targets as a worker does. Refusals, in this order: "targets must be array",
// "targets are empty", "all targets must be strings, number given".
func readTargets(data jobnet.Fields) (t Targets, err error) {
	if !data.Has("targets") {
		return t, nil
	}
	items, err := data.List("targets")
	if err != nil {
		return t, err
	}
	if err := atMost("targets", len(items), mostTargets); err != nil {
		return t, err
	}
	for _, item := range items {
		target, err := targetName(item)
		if err != nil {
			return t, err
		}
		if len(target) > longestTarget {
			return t, jobnet.Refusef("target '%s' is too long: at most %d bytes are allowed", jobnet.Excerpt(target), longestTarget).
				With(jobnet.CodeLimit)
		}
		t.Targets = append(t.Targets, target)
	}
	return t, notEmpty(t.Targets)
}

// targetName is an item of a list of targets.
func targetName(item json.RawMessage) (string, error) {
	if kind := jobnet.TypeOf(item); kind != "string" {
		return "", jobnet.Refusef("all targets must be strings, %s given", kind)
	}
	return jobnet.Text(item), nil
}

func notEmpty(targets []string) error {
	if len(targets) == 0 {
		return jobnet.Refusal("targets are empty")
	}
	return nil
}

// atMost refuses a list or an object of more than so many: a request's cost grows with each of
// them.
func atMost(name string, are, most int) error {
	if are > most {
		return jobnet.Refusef("%s: at most %d are allowed in a request, got %d", name, most, are).With(jobnet.CodeLimit)
	}
	return nil
}

// Done is the answer of the requests that are carried out at once: the text "ok", or, to a client
// that asked a master for detail, whom that was about.
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

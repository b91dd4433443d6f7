package contract

import (
	"bytes"
	"encoding/json"
	"strconv"

	jobnet "jobd/net"
)

// Retry sets rows that are done or ignored back, to be run once more. A master hands it to the one
// worker that it names.
var Retry = Request[RetryRows, RetriedRows]{Name: "retry", Changes: true, Slow: true, read: readRetry}

// mostRetries is how many rows one request may set back.
const mostRetries = 10_000

// RetryRows is the data of retry.
type RetryRows struct {
	IDs      []jobnet.Whole          `json:"ids"`
	Finished map[jobnet.Whole]int64  `json:"finished,omitempty"` // only while the row's time_finished is this, in unix seconds
	To       map[jobnet.Whole]string `json:"to,omitempty"`       // waiting or manual; for others the worker's journal tells which, else it is waiting
}

func readRetry(data jobnet.Fields) (r RetryRows, err error) {
	if r.IDs, err = readSomeIDs(data, mostRetries); err != nil {
		return r, err
	}
	r.Finished, r.To = make(map[jobnet.Whole]int64), make(map[jobnet.Whole]string)
	err = byID(data, "finished", func(id jobnet.Whole, value json.RawMessage) error {
		at, whole := jobnet.Integer(value)
		if !whole {
			return jobnet.Refusef("finished: job %d: a time must be a whole number of seconds", id)
		}
		r.Finished[id] = at
		return nil
	})
	if err != nil {
		return r, err
	}
	return r, byID(data, "to", func(id jobnet.Whole, value json.RawMessage) error {
		var to string
		if json.Unmarshal(value, &to) != nil || to != "waiting" && to != "manual" {
			return jobnet.Refusef("to: job %d: allowed are waiting and manual", id)
		}
		r.To[id] = to
		return nil
	})
}

// byID reads an object whose names are ids; none is there where the field is not.
func byID(data jobnet.Fields, name string, take func(id jobnet.Whole, value json.RawMessage) error) error {
	if !data.Has(name) {
		return nil
	}
	if text := bytes.TrimSpace(data[name]); len(text) == 0 || text[0] != '{' {
		return jobnet.Refusef("%s must be an object whose names are ids", name)
	}
	members := jobnet.FieldsOf(data[name])
	if err := atMost(name, len(members), mostRetries); err != nil {
		return err
	}
	for text, value := range members {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id == 0 {
			return jobnet.Refusef("%s: %q is no id of a job", name, jobnet.Excerpt(text))
		}
		if err := take(jobnet.Whole(id), value); err != nil {
			return err
		}
	}
	return nil
}

// RetriedRows is the answer to retry: each job is in one of its parts.
type RetriedRows struct {
	Jobs   map[jobnet.Whole]string `json:"jobs,omitempty"`   // what its row is set back to: waiting or manual
	Errors map[jobnet.Whole]string `json:"errors,omitempty"` // why it is as it was
}

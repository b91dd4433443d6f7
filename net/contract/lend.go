package contract

import (
	"encoding/json"

	jobnet "jobd/net"
)

// Lend is how a worker gets its shares of the rates that all workers of a master keep together. It
// asks again and again; what it does not ask for any more is lent to others after a while.
var Lend = Request[Borrowing, Shares]{Name: "lend", read: readBorrowing}

// Borrowing is the data of lend.
type Borrowing struct {
	Rates []SharedRate `json:"rates"`
}

// SharedRate is the rate of a target that all workers keep together.
type SharedRate struct {
	Target string `json:"target"`
	Starts int64  `json:"starts"`          // in a time
	Per    int64  `json:"per"`             // that time, in milliseconds
	Wants  bool   `json:"wants,omitempty"` // jobs wait for it where the worker looks

	// Has is the share that the worker has, in starts a second; nil: none was lent to it yet.
	Has *float64 `json:"has,omitempty"`
}

// Shares is the answer to lend: starts a second, by target.
type Shares struct {
	Shares map[string]float64 `json:"shares"`
}

func readBorrowing(data jobnet.Fields) (b Borrowing, err error) {
	err = each(data, "rates", MostTargets, func(item json.RawMessage) error {
		fields := jobnet.FieldsOf(item)
		r := SharedRate{Wants: fields.Flag("wants")}
		var err error
		if r.Target, err = fields.Text("target"); err != nil {
			return err
		}
		if err := withinLimit("a target", r.Target, mostNameBytes); err != nil {
			return err
		}
		if r.Starts, err = fields.Int("starts"); err != nil {
			return err
		}
		if r.Per, err = fields.Int("per"); err != nil {
			return err
		}
		if r.Starts < 1 || r.Per < 1 {
			return jobnet.Refusal("starts and per must be greater than 0")
		}
		if fields.Has("has") && (json.Unmarshal(fields["has"], &r.Has) != nil || r.Has != nil && *r.Has < 0) {
			return jobnet.Refusal("has must be a number of at least 0")
		}
		b.Rates = append(b.Rates, r)
		return nil
	})
	return b, err
}

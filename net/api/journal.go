package api

import (
	"encoding/json"
	"errors"

	jobnet "jobd/net"
	"jobd/net/principal"
)

// The requests about journals. A master hands them on to its workers and reads no more of them than
// the field worker, so their data and the items of their streams, which speak of events and rows,
// stand in cmd/internal/history.
const (
	JournalAnchor  = "journal-anchor"
	JournalRows    = "journal-rows"
	JournalEvents  = "journal-events"
	JournalState   = "journal-state"
	JournalVerify  = "journal-verify"
	JournalDiff    = "journal-diff"
	JournalReapply = "journal-reapply"
	JournalNext    = "journal-next"
	JournalClose   = "journal-close"
)

// Opened is the answer to a request that opens a stream.
type Opened struct {
	Name   string `json:"name"` // the worker's
	Cursor string `json:"cursor"`

	// Understood names those of the request's fields that workers of older versions pass over.
	Understood []string `json:"understood,omitempty"`
}

// Cursor is the data of the requests about an open stream.
type Cursor struct {
	Cursor string `json:"cursor"`
}

// The requests about journals whose data has no more to it, and those whose data stands elsewhere.
var (
	NextPage    = declare[Cursor, json.RawMessage](Kind{Name: JournalNext, scope: principal.Read, Slow: true, Relayed: true}, readCursor)
	CloseStream = declare[Cursor, Done](Kind{Name: JournalClose, scope: principal.Read, Relayed: true}, readCursor)
	LookAtRows  = declare[rowIDs, json.RawMessage](Kind{Name: JournalRows, scope: principal.Read | principal.Submit, Slow: true, Relayed: true}, readRowIDs)

	_ = declare[None, json.RawMessage](Kind{Name: JournalAnchor, scope: principal.Read, Relayed: true}, readNone)
	_ = declare[None, Opened](Kind{Name: JournalEvents, scope: principal.Read, Relayed: true}, readNone)
	_ = declare[None, Opened](Kind{Name: JournalState, scope: principal.Read, Relayed: true}, readNone)
	_ = declare[None, Opened](Kind{Name: JournalVerify, scope: principal.Read, whole: true, Relayed: true}, readNone)
	_ = declare[None, Opened](Kind{Name: JournalDiff, scope: principal.Read, whole: true, Relayed: true}, readNone)
	_ = declare[None, Opened](Kind{Name: JournalReapply, scope: principal.Admin, whole: true, Changes: true, Relayed: true}, readNone)
)

func readCursor(r *reader) Cursor { return Cursor{r.Text("cursor")} }

// rowIDs is the data of journal-rows.
type rowIDs struct {
	IDs []jobnet.Whole `json:"ids"`
}

// mostRows bounds journal-rows.
const mostRows = 1000

func readRowIDs(r *reader) rowIDs { return rowIDs{r.ids(mostRows)} }

// ReadQuery reads the data of a request about journals into a struct of cmd/internal/history.
// Fields that it does not have are ignored, as in every request, and so is data that is no object.
func ReadQuery(data json.RawMessage, into any) error {
	if len(data) == 0 || jobnet.TypeOf(data) != "object" {
		return nil
	}
	err := json.Unmarshal(data, into)
	var wrongType *json.UnmarshalTypeError
	var refusal jobnet.Refusal
	switch {
	case errors.As(err, &refusal):
		return invalid(err)
	case errors.As(err, &wrongType):
		return jobnet.Refusef("'%s' must not be %s", wrongType.Field, wrongType.Value).With(jobnet.CodeInvalid)
	case err != nil: // a time
		return jobnet.Refusal("'at', 'since' and 'until' must be times such as 2026-11-20T14:00:00Z").With(jobnet.CodeInvalid)
	}
	return nil
}

// Relayed is a master's answer to a request about journals.
type Relayed struct {
	Workers []RelayedAnswer `json:"workers"`
}

// RelayedAnswer is one worker's answer: its data, or its error.
type RelayedAnswer struct {
	Name    string          `json:"name"`
	Address string          `json:"address"` // host:port; with it a client names the worker in further requests
	Data    json.RawMessage `json:"data,omitempty"`
	Error   string          `json:"error,omitempty"`
}

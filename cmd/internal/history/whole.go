package history

import (
	"encoding/json"

	jobnet "jobd/net"
)

// plainQuery is a query without methods.
type plainQuery Query

// queryForm is a query in its JSON form, whose job goes over the wire as jobnet.Whole has it: the outer field
// of the name counts.
type queryForm struct {
	Job jobnet.Whole `json:"job,omitempty"`
	*plainQuery
}

// MarshalJSON implements json.Marshaler.
func (q Query) MarshalJSON() ([]byte, error) {
	return json.Marshal(queryForm{jobnet.Whole(q.Job), (*plainQuery)(&q)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (q *Query) UnmarshalJSON(data []byte) error {
	form := queryForm{plainQuery: (*plainQuery)(q)}
	err := json.Unmarshal(data, &form)
	q.Job = int64(form.Job)
	return err
}

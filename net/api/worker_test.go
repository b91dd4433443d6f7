package api

import (
	"encoding/json"
	"testing"
)

// Every whole number of 64 bits but 0 is an id: as a number where it is exact, else as a string of
// digits.
func TestIDsThatClientsSend(t *testing.T) {
	t.Parallel()
	tests := []struct {
		sent string
		id   int64
		want string // the refusal
	}{
		{`1`, 1, ""},
		{`5.0`, 5, ""},
		{`-5`, -5, ""},
		{`9007199254740991`, 1<<53 - 1, ""},
		{`"9007199254740992"`, 1 << 53, ""},
		{`"9223372036854775807"`, 1<<63 - 1, ""},
		{`"-9223372036854775808"`, -1 << 63, ""},
		{`0`, 0, "no job has the id 0"},
		{`-0.0`, 0, "no job has the id 0"},
		{`"900111"`, 0, "all ids must be numbers, got string"},
		{`"9223372036854775808"`, 0, "all ids must be numbers, got string"},
		{`"09007199254740993"`, 0, "all ids must be numbers, got string"},
		{`null`, 0, "all ids must be numbers, got object"},
		{`true`, 0, "all ids must be numbers, got boolean"},
		{`1.5`, 0, "all ids must be integers: 1.5 is no whole number of 64 bits; allowed are numbers up to ±9007199254740991, and decimal strings beyond"},
		{`9007199254740993`, 0, "all ids must be integers: 9007199254740993 is no whole number of 64 bits; allowed are numbers up to ±9007199254740991, and decimal strings beyond"},
	}
	for _, test := range tests {
		var r reader
		id := r.id(json.RawMessage(test.sent))
		err := r.Err
		if err == nil && test.want == "" && int64(id) == test.id {
			continue
		}
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: %d, %v; want %d, %s", test.sent, id, err, test.id, test.want)
		}
	}
}

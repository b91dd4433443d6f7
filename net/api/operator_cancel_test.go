package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	jobnet "jobd/net"
)

// The data of cancel is read as it is written, with what is not said filled in; anything else is
// refused, with what is allowed.
func TestReadCancel(t *testing.T) {
	t.Parallel()
	grace := func(ms int64) *int64 { return &ms }
	many := strings.Repeat("1,", MostCancelled) + "1"
	var targets []string
	for id := range MostCancelled + 1 {
		targets = append(targets, fmt.Sprintf(`"%d":"a"`, id+1))
	}
	for sent, want := range map[string]struct {
		query   CancelQuery
		refusal string
	}{
		`{"ids":[5,-6]}`: {query: CancelQuery{IDs: []jobnet.Whole{5, -6}, Grace: grace(DefaultGrace)}},
		`{"ids":[5],"grace":0,"rows":true,"targets":{"5":"a"}}`: {
			query: CancelQuery{IDs: []jobnet.Whole{5}, Grace: grace(0), Rows: true, Targets: map[jobnet.Whole]string{5: "a"}},
		},
		`{}`:                             {refusal: "ids must be array"},
		`{"ids":["x"]}`:                  {refusal: "all ids must be numbers, got string"},
		`{"ids":[` + many + `]}`:         {refusal: "too many ids: at most 10000 are allowed"},
		`{"ids":[5],"grace":-1}`:         {refusal: "grace: -1 is not allowed; allowed is 0 to 86400000"},
		`{"ids":[5],"grace":86400001}`:   {refusal: "grace: 86400001 is not allowed; allowed is 0 to 86400000"},
		`{"ids":[5],"grace":"soon"}`:     {refusal: "'grace' must be integer"},
		`{"ids":[5],"targets":{"5":6}}`:  {refusal: `targets: job 5: 6 is no text`},
		`{"ids":[5],"targets":{"x":""}}`: {refusal: `targets: "x" is no id of a job`},
		`{"ids":[5],"targets":{` + strings.Join(targets, ",") + `}}`: {refusal: "too many targets: at most 10000 are allowed"},
	} {
		got, err := Cancel.Read(anybody, jobnet.FieldsOf(json.RawMessage(sent)))
		if want.refusal != "" {
			if err == nil || err.Error() != want.refusal || jobnet.CodeOf(err) == jobnet.CodeRefused {
				t.Errorf("%.60s: %v (code %s), want %s", sent, err, jobnet.CodeOf(err), want.refusal)
			}
			continue
		}
		if diff := cmp.Diff(want.query, got); err != nil || diff != "" {
			t.Errorf("%.60s: %v (-want +got):\n%s", sent, err, diff)
		}
	}
}

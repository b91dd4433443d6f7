package api

import (
	"fmt"
	"strings"
	"testing"

	jobnet "jobd/net"
)

func TestWhatMayBeExplained(t *testing.T) {
	t.Parallel()
	many := func(n int) string { return `{"ids":[` + strings.TrimSuffix(strings.Repeat("7,", n), ",") + `]}` }
	for data, want := range map[string]string{
		`{"ids":[5]}`: "",
		`{"ids":[5,-6],"output":true,"probe":true}`: "",
		many(MostExplained):                         "",
		many(MostExplained + 1):                     fmt.Sprintf("too many ids: at most %d are allowed", MostExplained),
		`{"ids":[]}`:                                "ids are empty",
		`{}`:                                        "ids must be array",
		`{"ids":["x"]}`:                             "all ids must be numbers, got string",
		`{"ids":[0]}`:                               "no job has the id 0",
	} {
		q, err := Explain.Read(anybody, jobnet.FieldsOf([]byte(data)))
		if want == "" && err == nil && len(q.IDs) > 0 && q.Output == strings.Contains(data, "output") && q.Probe == q.Output {
			continue
		}
		if want == "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %+v, %v; want %s", data, q, err, want)
		}
	}
	if !Kinds[Explain.Name].Relayed {
		t.Error("a master would not hand it on")
	}
}
